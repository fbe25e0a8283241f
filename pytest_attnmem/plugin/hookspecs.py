"""The hooks that conftest files and other plugins may implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..backends.registry import Opener
    from ..profiles import DeviceProfile
    from ..report.record import Record


@pytest.hookspec
def pytest_attnmem_register_backends() -> Mapping[str, Opener]:  # type: ignore[empty-body]
    """Return backends by name: callables that take the text after the colon, or ``""``."""


@pytest.hookspec
def pytest_attnmem_device_profiles() -> Iterable[DeviceProfile]:  # type: ignore[empty-body]
    """Return more devices, each a ``pytest_attnmem.profiles.DeviceProfile``, for
    ``simulated:NAME`` and ``null:NAME``. A name that is taken is an error. The null device starts
    before conftest files are loaded, so it needs an installed plugin or one given with ``-p``.
    """


@pytest.hookspec
def pytest_attnmem_record(item: pytest.Item, record: Record) -> None:
    """Called for each row when it is written, in the process that runs the test.

    ``record.expected`` is still False: an expected failure is known only after the test.
    """

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
    """Return backends by name: callables that take what stands after the colon, or ``""``."""


@pytest.hookspec
def pytest_attnmem_device_profiles() -> Iterable[DeviceProfile]:  # type: ignore[empty-body]
    """Return more devices, each a ``pytest_attnmem.profiles.DeviceProfile``, to be asked for by
    name: ``simulated:NAME``, ``null:NAME``. A name that exists is refused. The null device is there
    before conftest files are, so for it a plugin that is installed or given with ``-p`` is needed.
    """


@pytest.hookspec
def pytest_attnmem_record(item: pytest.Item, record: Record) -> None:
    """Called for each row as it is made, in the process that runs the test.

    ``record.expected`` is still false: an expected failure is known only after the test.
    """

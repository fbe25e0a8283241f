"""The hooks that conftest files and other plugins may implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .backends import Opener
    from .record import Record


@pytest.hookspec
def pytest_attnmem_register_backends() -> Mapping[str, Opener]:  # type: ignore[empty-body]
    """Return backends by name: callables that take what stands after the colon, or ``""``."""


@pytest.hookspec
def pytest_attnmem_record(item: pytest.Item, record: Record) -> None:
    """Called for each row as it is made, in the process that runs the test."""

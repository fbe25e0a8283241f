"""Words to the device's allocator, which say nothing about values."""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Final


def record_stream(call: SimpleNamespace) -> None:
    """Computes nothing."""


OPERATORS: Final = MappingProxyType({"aten.record_stream.default": record_stream})

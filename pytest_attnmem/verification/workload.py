"""A small program for a CUDA device, whose memory every backend measures."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Workload(NamedTuple):
    """A program and its name."""

    name: str
    """The kind and the case: ``attention/flash-fp16``."""
    run: Callable[[], object]
    """Runs it on the current CUDA device. Inputs and parameters are made inside."""

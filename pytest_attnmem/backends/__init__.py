"""Backends: how memory is observed on a kind of device. This is the face for their authors.

It imports no torch: conftest files are read where torch is not installed.
"""

from ..measurement.protocol import Delta, Interval, Recorder
from .base import Backend

__all__ = ["Backend", "Delta", "Interval", "Recorder"]

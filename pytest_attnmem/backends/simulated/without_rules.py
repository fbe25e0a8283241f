"""A simulated device on a torch whose memory rules are unknown: programs run, unmeasured."""

from __future__ import annotations

from dataclasses import replace

from ...measurement.protocol import Interval, Recorder
from ...profiles import DeviceProfile
from . import Simulated

#: Bytes of the device: nothing is known of what a program needs, so it never runs out of memory.
_UNLIMITED = 1 << 60


class WithoutRules(Simulated):
    """A device whose windows are not measured, for the reason ``missing``."""

    def __init__(self, profile: DeviceProfile, missing: str) -> None:
        super().__init__(replace(profile, memory_bytes=_UNLIMITED))
        self._missing = missing

    def prime(self) -> int:
        """Allocates library workspaces; returns 0, because their bytes are unknown."""
        super().prime()
        return 0

    def gauge(self) -> Recorder:
        """Returns a recorder that measures nothing."""
        return _Unmeasured(super().gauge(), self._missing)

    def tracer(self) -> Recorder:
        """Returns a recorder that measures nothing, and lists no tensor."""
        return _Unmeasured(super().tracer(), self._missing)


class _Unmeasured:
    """Runs a recorder, and keeps none of its numbers."""

    def __init__(self, recorder: Recorder, missing: str) -> None:
        self._recorder = recorder
        self._missing = missing

    def start(self) -> None:
        self._recorder.start()

    def stop(self) -> Interval:
        allocations = self._recorder.stop().allocations
        return Interval(None, None, None, allocations, self._missing)

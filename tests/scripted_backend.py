"""A backend that saw what a test says, for the windows around it."""

from collections.abc import Mapping

from pytest_attnmem.measurement.protocol import Interval, Recorder


class ScriptedBackend:
    """Its recorder returns the intervals one by one, and its calls are noted."""

    def __init__(self, *intervals: Interval, name: str = "scripted", device: str = "scripted:0"):
        self.name, self.device = name, device
        self.kinds: tuple[str, ...] = ("scripted",)
        self.symbols: Mapping[str, int] = {}
        self.intervals = list(intervals)
        self.calls: list[str] = []

    def prime(self) -> int:
        return 0

    def forget(self) -> None:
        self.calls.append("forget")

    def empty_cache(self) -> None:
        self.calls.append("empty")

    def gauge(self) -> Recorder:
        self.calls.append("gauge")
        return self

    def tracer(self) -> Recorder:
        self.calls.append("tracer")
        return self

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> Interval:
        self.calls.append("stop")
        return self.intervals.pop(0)

    def out_of_memory(self, error: BaseException) -> str | None:
        return str(error) if isinstance(error, MemoryError) else None

"""``torch.cuda.Stream`` and ``torch.cuda.Event`` of a simulated device."""

from __future__ import annotations

from itertools import count
from typing import Any, Protocol

from .fake_tensor import CUDA


class Streams(Protocol):
    """The functions of ``torch.cuda`` that know the current stream."""

    def current_stream(self, device: Any = None) -> Stream:
        """Returns the current stream."""

    def set_stream(self, stream: Stream | None) -> None:
        """Makes a stream the current one."""


class Stream:
    """A stream; the allocator keeps the blocks of each stream apart."""

    _streams: Streams
    _numbers: count[int]

    device = CUDA
    device_index = 0
    device_type = 1
    priority = 0

    def __init__(self, *_: Any, number: int | None = None, **__: Any) -> None:
        self.stream_id = self.cuda_stream = next(self._numbers) if number is None else number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.stream_id == self.stream_id

    def __hash__(self) -> int:
        return self.stream_id

    def __enter__(self) -> Stream:
        self._before = self._streams.current_stream()
        self._streams.set_stream(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._streams.set_stream(self._before)

    def synchronize(self) -> None:
        """Does nothing: work is done when it is launched."""

    def wait_stream(self, stream: Any) -> None:
        """Does nothing."""

    def wait_event(self, event: Any) -> None:
        """Does nothing."""

    def record_event(self, event: Any = None) -> Event:
        """Returns the event, or a new one."""
        return event or Event()

    def query(self) -> bool:
        """Returns True: all work is done."""
        return True

    def is_capturing(self) -> bool:
        """Returns False: CUDA graphs are not simulated."""
        return False


class Event:
    """An event, complete as soon as it is recorded."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def record(self, stream: Any = None) -> None:
        """Does nothing."""

    def wait(self, stream: Any = None) -> None:
        """Does nothing."""

    def synchronize(self) -> None:
        """Does nothing."""

    def query(self) -> bool:
        """Returns True: the event is complete."""
        return True

    def elapsed_time(self, end: Event) -> float:
        """Returns 0 milliseconds: work takes no time."""
        return 0.0


def stream_type(streams: Streams) -> type[Stream]:
    """Returns the type that a program finds as ``torch.cuda.Stream``.

    It is a type, because programs use it in annotations and in ``isinstance``.
    """
    members = {"_streams": streams, "_numbers": count(1), "__doc__": Stream.__doc__}
    return type("Stream", (Stream,), members)

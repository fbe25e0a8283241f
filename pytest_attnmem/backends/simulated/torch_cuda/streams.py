"""``torch.cuda.Stream`` and ``torch.cuda.Event`` of a simulated device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

import torch

from ....errors import CannotSimulate
from ...autograd_engine import next_number
from ..program_errors import at


class StreamGraphs:
    """The steps of autograd's graphs that were made on another stream than the default one.

    Autograd numbers the steps of a thread in the order in which they are made.
    """

    def __init__(self) -> None:
        self._stream = 0
        self._first = 0  # the number of the first step on this stream
        self._made: list[tuple[range, int]] = []

    def enter(self, stream: int) -> None:
        """Notes that a stream is the current one from now on."""
        now = next_number()
        if self._stream and now > self._first:
            self._made.append((range(self._first, now), self._stream))
        self._stream, self._first = stream, now

    def checked(
        self, run_backward: Callable[..., Any], refused: Callable[[str], CannotSimulate]
    ) -> Callable[..., Any]:
        """Returns ``run_backward``; a pass through steps of another stream is not enforced."""

        def run(outputs: Iterable[torch.Tensor], *args: Any, **kwargs: Any) -> Any:
            outputs = tuple(outputs)
            if (self._made or self._stream) and self._is_of_another_stream(outputs):
                refused(
                    f"backward{at()} ran on another stream than its forward pass, so memory waits"
                    " for the streams of a device; run both on one stream"
                )
            return run_backward(outputs, *args, **kwargs)

        return run

    def _is_of_another_stream(self, outputs: tuple[Any, ...]) -> bool:
        """Returns True if a step of the graph was made on another stream than the current one."""
        self.enter(self._stream)
        return any(self._stream_of(step) != self._stream for step in _steps(outputs))

    def _stream_of(self, step: Any) -> int:
        number = step._sequence_nr()
        return next((stream for made, stream in self._made if number in made), 0)


def _steps(outputs: Iterable[Any]) -> Iterator[Any]:
    """Yields each step behind tensors, or edges, that leads to others.

    The rest add to the gradients of leaves, and have no number.
    """
    left = [out.grad_fn if isinstance(out, torch.Tensor) else out[0] for out in outputs]
    seen = {*left}
    while left:
        step = left.pop()
        if step is not None and step.next_functions:
            yield step
            following = {step for step, _ in step.next_functions} - seen
            seen |= following
            left += following


CPU: Final = torch.device("cpu")
CUDA: Final = torch.device("cuda", 0)


class Streams(Protocol):
    """The functions of ``torch.cuda`` that streams need."""

    def check_device(self, device: Any) -> None:
        """Checks that a program means the one device."""

    def current_stream(self, device: Any = None) -> Stream:
        """Returns the current stream."""

    def set_stream(self, stream: Stream | None) -> None:
        """Makes a stream the current one."""


class Stream:
    """A stream; the allocator keeps the blocks of each stream apart."""

    _streams: Streams
    _pools: StreamPools

    device = CUDA
    device_index = 0
    device_type = 1

    def __init__(
        self,
        device: Any = None,
        priority: int = 0,
        *,
        stream_id: int | None = None,
        device_index: int = 0,
        device_type: int = 1,
    ) -> None:
        if device is not None:
            self._streams.check_device(device)
        if stream_id is None:
            stream_id = self._pools.take(priority)
        self.stream_id = self.cuda_stream = stream_id
        self.priority = StreamPools.priority(stream_id)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return False
        return (other.stream_id, other.device_type) == (self.stream_id, self.device_type)

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
        """Returns the event, or a new one, recorded."""
        event = event or Event()
        event.record(self)
        return event  # type: ignore[no-any-return]

    def query(self) -> bool:
        """Returns True: all work is done."""
        return True

    def is_capturing(self) -> bool:
        """Returns False: CUDA graphs are not simulated."""
        return False


class StreamOf(Stream):
    """``torch.Stream``, which may be of the host: there it has no order to keep."""

    def __init__(self, device: Any = None, *, priority: int = 0, **named: int) -> None:
        if device is not None and not isinstance(device, int) and torch.device(device) == CPU:
            self.device, self.device_index, self.device_type = CPU, -1, 0
            self.stream_id = self.priority = 0
        else:
            super().__init__(device, priority, **named)

    def __enter__(self) -> Stream:
        return self if self.device is CPU else super().__enter__()

    def __exit__(self, *_: object) -> None:
        if self.device is not CPU:
            super().__exit__()


class StreamPools:
    """PyTorch's streams: 32 of each priority, which it hands out in turn.

    The number of a stream has, from the lowest bit on, a 1, the pool in four bits, and the place in
    it (c10/cuda/CUDAStream.cpp).
    """

    _SIZE = 32
    _POOLS = 4

    def __init__(self) -> None:
        self._taken = [0] * self._POOLS

    def take(self, priority: int) -> int:
        """Returns the number of the next stream of a priority, where a lower one goes first."""
        pool = min(max(-priority, 0), self._POOLS - 1)
        place = self._taken[pool] % self._SIZE
        self._taken[pool] += 1
        return place << 5 | (pool + 1) << 1 | 1

    @staticmethod
    def priority(stream: int) -> int:
        """Returns the priority of the stream with that number."""
        return 1 - (stream >> 1 & 15) if stream & 1 else 0

    def is_shared(self, stream: int) -> bool:
        """Returns True if PyTorch handed out that stream more than once."""
        if not stream & 1:
            return False
        return self._taken[(stream >> 1 & 15) - 1] > (stream >> 5) + self._SIZE


class Event:
    """An event, complete as soon as it is recorded."""

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        self._timed = enable_timing
        self._recorded = False

    def record(self, stream: Any = None) -> None:
        """Notes that the event was recorded."""
        self._recorded = True

    def wait(self, stream: Any = None) -> None:
        """Does nothing."""

    def synchronize(self) -> None:
        """Does nothing."""

    def query(self) -> bool:
        """Returns True: the event is complete."""
        return True

    def elapsed_time(self, end_event: Event) -> float:
        """Returns 0 milliseconds: work takes no time.

        Raises:
            ValueError: one of the events was made without ``enable_timing=True``, or not recorded.
        """
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (self._recorded and end_event._recorded):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return 0.0


class EventOf(Event):
    """``torch.Event``, which takes a device first."""

    def __init__(self, device: Any = None, *, enable_timing: bool = False, **named: bool) -> None:
        super().__init__(enable_timing, **named)
        self.device = CUDA
        self.event_id = 0


def stream_types(streams: Streams, pools: StreamPools) -> tuple[type[Stream], ...]:
    """Returns the types that a program finds as ``torch.Stream``, and in ``torch.cuda``.

    Those are ``Stream`` and ``ExternalStream``. They are types, because programs use them in
    annotations and in ``isinstance``.
    """
    document = {"__doc__": Stream.__doc__}
    any_device = type("Stream", (StreamOf,), {"_streams": streams, "_pools": pools, **document})
    of_cuda = type("Stream", (any_device,), {"__init__": Stream.__init__, **document})

    def __init__(self: Stream, stream_ptr: int, device: Any = None) -> None:
        Stream.__init__(self, device, stream_id=stream_ptr)

    external = type("ExternalStream", (of_cuda,), {"__init__": __init__, **document})
    return any_device, of_cuda, external

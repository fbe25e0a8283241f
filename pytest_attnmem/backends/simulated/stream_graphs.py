"""Notes on which stream autograd's graphs were made, for a device runs their backward pass there.

It also records the streams that a gradient passes between, and frees such memory only once the work
of those streams is done (torch/csrc/autograd/input_buffer.cpp): at no time that a simulation knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from ...errors import CannotSimulate
from .program_errors import at


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
        now = torch._C._autograd._get_sequence_nr()
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

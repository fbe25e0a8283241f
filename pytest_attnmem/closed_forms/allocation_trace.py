"""The allocations and frees of a program, in order.

A program makes the same tensors in the same order at all sizes. Runs at several sizes are therefore
compared event by event, and the bytes of each tensor are fitted on their own: exactly, through more
points than the fit needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..measurement.held import Held


class Allocated(NamedTuple):
    """The allocation of a tensor or of scratch."""

    held: Held


class Freed(NamedTuple):
    """The end of an allocation; ``birth`` counts the allocations of the run from 0."""

    birth: int


Run = tuple["Allocated | Freed", ...]
Program = Callable[[Mapping[str, int]], Run]


def aligned(runs: Sequence[Run]) -> bool:
    """Returns True if all runs have the same events, apart from sizes."""
    first, *others = map(_skeleton, runs)
    return all(other == first for other in others)


def _skeleton(run: Run) -> list[object]:
    return [
        (event.held.op, event.held.where, event.held.dtype, len(event.held.shape))
        if isinstance(event, Allocated)
        else event.birth
        for event in run
    ]


def peak(run: Run) -> int:
    """Returns the peak of a run, in bytes."""
    level = high = 0
    sizes: list[int] = []
    for event in run:
        if isinstance(event, Allocated):
            sizes.append(event.held.nbytes)
            level += event.held.nbytes
            high = max(high, level)
        else:
            level -= sizes[event.birth]
    return high

"""One program at many sizes: what each of its tensors is as a polynomial in them.

The same program makes the same tensors in the same order, whatever their sizes. So its runs are
laid side by side, and each tensor's bytes are fitted on their own: exactly, through more points
than the fit needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..measurement.held import Held


class Alloc(NamedTuple):
    """Something is allocated."""

    held: Held


class Free(NamedTuple):
    """What was born in that place, counted from 0, is gone."""

    birth: int


Run = tuple["Alloc | Free", ...]
Program = Callable[[Mapping[str, int]], Run]


def aligned(runs: Sequence[Run]) -> bool:
    """Whether all runs did the same, at whatever sizes."""
    first, *others = map(_skeleton, runs)
    return all(other == first for other in others)


def _skeleton(run: Run) -> list[object]:
    return [
        (event.held.op, event.held.where, event.held.dtype, len(event.held.shape))
        if isinstance(event, Alloc)
        else event.birth
        for event in run
    ]


def peak(run: Run) -> int:
    """The highest bytes alive in a run."""
    level = high = 0
    sizes: list[int] = []
    for event in run:
        if isinstance(event, Alloc):
            sizes.append(event.held.nbytes)
            level += event.held.nbytes
            high = max(high, level)
        else:
            level -= sizes[event.birth]
    return high

"""The tensors beneath a peak, told apart by the line that makes them.

A peak is the sum of what is alive at one moment, so a constant (weights, an optimizer's state) can
hide a matrix that is alive at another. A peak is at least as large as each part of it, and no
larger than all parts together: memory keeps a growth contract if, and only if, each part does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from .held import Held
from .measurement import Measurement
from .timeline import Span, Timeline

#: The operator, file and line, function, dtype and number of dimensions of a tensor.
_Origin = tuple[str, str, str, str, int]


class Part(NamedTuple):
    """The tensors of one origin, over several runs."""

    held: Held
    """The largest of them, in the last run that has one."""
    values: tuple[int, ...]
    """By run: the most bytes of them alive at once, or alive at the end."""


class Beneath(NamedTuple):
    """The parts of a program's memory, over a grid of sizes."""

    sizes: Mapping[str, tuple[int, ...]]
    parts: tuple[Part, ...]


def beneath(
    sizes: Mapping[str, tuple[int, ...]],
    runs: Mapping[tuple[int, ...], Measurement],
    peaks: Mapping[tuple[int, ...], int],
    metric: str,
    *,
    whole: bool = False,
) -> Beneath | None:
    """Returns the parts of runs that tell of tensors, at each point of a grid of *sizes*.

    *peaks* were measured there.

    With ``whole``, the bytes of a peak that belong to no tensor (scratch inside kernels) are a part
    as well. Returns ``None`` if the runs do not tell of the tensors that were measured: compiled
    code runs eagerly under a tracker, and holds more there.
    """
    points = [*product(*sizes.values())]
    told = [runs[at] for at in points]
    at_end = metric == "retained"
    seen = [run.value(metric if at_end else "peak") or 0 for run in told]
    unseen = tuple(peaks[at] - held for at, held in zip(points, seen, strict=True))
    timelines = [run.timeline for run in told if run.timeline is not None and not run.unmeasured]
    if len(timelines) < len(told) or min(unseen) < 0:
        return None
    found = parts(timelines, at_end=at_end)
    if whole and any(unseen):
        found = (*found, Part(Held(0, (), "", "scratch inside kernels", ""), unseen))
    return Beneath(sizes, found)


def parts(runs: Sequence[Timeline], *, at_end: bool = False) -> tuple[Part, ...]:
    """Returns the parts of runs of one program at growing sizes, the largest at the end first.

    Tensors of one origin whose shapes occur in every run (weights' gradients) are a part of their
    own, apart from tensors whose shapes depend on the size. ``at_end`` counts what is alive at the
    end of a run.
    """
    grouped = [_grouped(run) for run in runs]
    found = []
    for origin in dict.fromkeys(origin for run in grouped for origin in run):
        lives = [run.get(origin, []) for run in grouped]
        fixed = set.intersection(*({span.held.shape for span in run} for run in lives))
        for apart in (True, False):
            chosen = [[s for s in run if (s.held.shape in fixed) is apart] for run in lives]
            values = tuple(_left(run) if at_end else _high(run) for run in chosen)
            if any(values):
                last = next(run for run in reversed(chosen) if run)
                largest = max(last, key=lambda span: span.held.nbytes).held
                found.append(Part(largest, values))
    return tuple(sorted(found, key=lambda part: part.values[::-1], reverse=True))


def _grouped(run: Timeline) -> dict[_Origin, list[Span]]:
    groups: dict[_Origin, list[Span]] = {}
    for span in run.spans:
        held = span.held
        if held.nbytes > 0:
            origin = (held.op, held.where, held.function, held.dtype, len(held.shape))
            groups.setdefault(origin, []).append(span)
    return groups


def _high(spans: Iterable[Span]) -> int:
    """Returns the most bytes of *spans* that are alive at once."""
    steps: dict[int, int] = {}
    for span in spans:
        steps[span.born] = steps.get(span.born, 0) + span.held.nbytes
        if span.died is not None:
            steps[span.died] = steps.get(span.died, 0) - span.held.nbytes
    level = high = 0
    for event in sorted(steps):
        level += steps[event]
        high = max(high, level)
    return high


def _left(spans: Iterable[Span]) -> int:
    return sum(span.held.nbytes for span in spans if span.died is None)

"""The tensors below a peak, separated by the line that makes them.

A peak is the sum of the tensors alive at one moment, so a constant (weights, an optimizer's state)
can hide a matrix that is alive at another moment. A peak is at least as large as each part and at
most as large as all parts together: memory keeps a growth contract if and only if each part does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Final, NamedTuple

from .held import Held
from .measurement import Measurement
from .timeline import Allocation, Timeline

#: The operator, file and line, function, dtype and number of dimensions of a tensor.
_Origin = tuple[str, str, str, str, int]


#: The largest allocation that is of no tensor: a storage that a program makes, or scratch.
UNSEEN: Final = "memory of no tensor"


class PartBelowPeak(NamedTuple):
    """The tensors of one origin, over several runs."""

    held: Held
    """The largest of these tensors, in the last run that has one."""
    values: tuple[int, ...]
    """The most bytes of these tensors alive at once, or alive at the end, by run."""
    largest: tuple[Held, ...] = ()
    """The largest of these tensors, by run; empty if a run has none."""
    spans: tuple[tuple[Allocation, ...], ...] = ()
    """These tensors, by run; empty for scratch inside kernels."""


class Beneath(NamedTuple):
    """The parts of a program's memory, over a grid of sizes."""

    sizes: Mapping[str, tuple[int, ...]]
    parts: tuple[PartBelowPeak, ...]


def beneath(
    sizes: Mapping[str, tuple[int, ...]],
    runs: Mapping[tuple[int, ...], Measurement],
    peaks: Mapping[tuple[int, ...], int],
    metric: str,
    *,
    whole: bool = False,
) -> Beneath | None:
    """Returns the parts of traced ``runs``, one at each point of a grid of ``sizes``.

    ``peaks`` are the measured peaks at these points. With ``whole``, the bytes of a peak that
    belong to no tensor (scratch inside kernels) are a part as well. Returns ``None`` if the traced
    runs hold other tensors than the measured ones: compiled code runs eagerly under a tracker, and
    holds more.
    """
    points = [*product(*sizes.values())]
    found = beneath_at(points, runs, peaks, metric, whole=whole)
    return None if found is None else Beneath(sizes, found)


def beneath_at(
    points: Sequence[tuple[int, ...]],
    runs: Mapping[tuple[int, ...], Measurement],
    peaks: Mapping[tuple[int, ...], int],
    metric: str,
    *,
    whole: bool = False,
) -> tuple[PartBelowPeak, ...] | None:
    """Returns the parts of traced ``runs`` at *points*, as :func:`beneath` does."""
    traced = [runs[point] for point in points]
    at_end = metric == "retained"
    in_tensors = [run.value(metric if at_end else "peak") or 0 for run in traced]
    scratch = tuple(peaks[at] - nbytes for at, nbytes in zip(points, in_tensors, strict=True))
    timelines = [run.timeline for run in traced if run.timeline is not None and not run.unmeasured]
    if len(timelines) < len(traced) or min(scratch) < 0:
        return None
    found = parts(timelines, at_end=at_end)
    unseen = tuple(run.unseen_bytes for run in traced)
    if any(unseen) and not at_end:
        found = (*found, PartBelowPeak(Held(0, (), "", UNSEEN, ""), unseen))
    if whole and any(scratch):
        found = (*found, PartBelowPeak(Held(0, (), "", "scratch inside kernels", ""), scratch))
    return found


def parts(runs: Sequence[Timeline], *, at_end: bool = False) -> tuple[PartBelowPeak, ...]:
    """Returns the parts of runs of one program at growing sizes, the largest at the end first.

    Tensors of one origin whose shapes occur in every run (weights' gradients) are a separate part
    from tensors whose shapes depend on the size, unless they occur more often in some runs: at
    N = d, [N, d] is a [d, d] too. ``at_end`` counts the tensors alive at the end.
    """
    grouped = [_grouped(run) for run in runs]
    found = []
    for origin in dict.fromkeys(origin for run in grouped for origin in run):
        tensors = [run.get(origin, []) for run in grouped]
        counts = [Counter(span.held.shape for span in run) for run in tensors]
        shared = set.intersection(*map(set, counts))
        fixed = {shape for shape in shared if len({count[shape] for count in counts}) == 1}
        for apart in (True, False):
            chosen = [[s for s in run if (s.held.shape in fixed) is apart] for run in tensors]
            values = tuple(_left(run) if at_end else _peak(run) for run in chosen)
            if any(values):
                largest = [
                    max(run, key=lambda span: span.held.nbytes).held for run in chosen if run
                ]
                every = tuple(largest) if all(chosen) else ()
                spans = tuple(map(tuple, chosen))
                found.append(PartBelowPeak(largest[-1], values, every, spans))
    return tuple(sorted(found, key=lambda part: part.values[::-1], reverse=True))


def unchanging(runs: Sequence[Measurement], metric: str) -> bool:
    """Returns True if the tensors of traced *runs* are the same, or if they are not known."""
    timelines = [run.timeline for run in runs if run.timeline is not None and not run.unmeasured]
    found = parts(timelines, at_end=metric == "retained")
    return all(len({*part.values}) == 1 for part in found)


def together(parts: Sequence[PartBelowPeak], *, at_end: bool = False) -> tuple[int, ...]:
    """Returns the most bytes of all tensors of *parts* alive at once, or at the end, by run."""
    runs = zip(*(part.spans for part in parts if part.spans), strict=True)
    joined = [[span for spans in run for span in spans] for run in runs]
    none = (0,) * len(parts[0].values)
    return tuple(_left(run) if at_end else _peak(run) for run in joined) or none


def _grouped(run: Timeline) -> dict[_Origin, list[Allocation]]:
    groups: dict[_Origin, list[Allocation]] = {}
    for span in run.spans:
        held = span.held
        if held.nbytes > 0:
            line = f"{held.where}, by {held.by}"  # a library may make two tensors for one line
            origin = (held.op, line, held.function, held.dtype, len(held.shape))
            groups.setdefault(origin, []).append(span)
    return groups


def _peak(spans: Iterable[Allocation]) -> int:
    """Returns the most bytes of ``spans`` that are alive at once."""
    steps: dict[int, int] = {}
    for span in spans:
        steps[span.allocated_at] = steps.get(span.allocated_at, 0) + span.held.nbytes
        if span.freed_at is not None:
            steps[span.freed_at] = steps.get(span.freed_at, 0) - span.held.nbytes
    level = peak = 0
    for event in sorted(steps):
        level += steps[event]
        peak = max(peak, level)
    return peak


def _left(spans: Iterable[Allocation]) -> int:
    return sum(span.held.nbytes for span in spans if span.freed_at is None)

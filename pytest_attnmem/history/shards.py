"""Joins the histories that several machines measured parts of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from ..errors import AttnMemError
from ..units import excerpt, shown
from .project_history import Point, ProjectHistory
from .steps import joined


def merged(histories: Sequence[ProjectHistory]) -> ProjectHistory:
    """Returns the history of all commits, with the steps between those of different parts too.

    A step between two parts that only commits without a number join is not confirmed.

    Raises:
        AttnMemError: they are of different repositories, tests, devices or versions.
    """
    first = histories[0]
    for other in histories[1:]:
        mine, others = ({"name": one.name, **one.facts} for one in (first, other))
        for name in mine:
            if mine[name] != others.get(name):
                here, there = excerpt(mine[name], 80), excerpt(str(others.get(name)), 80)
                raise AttnMemError(
                    f"cannot merge these histories: {name} is {here!r} in one and {there!r} in the"
                    " other"
                )
    points: dict[str, Point] = {}
    for point in (point for one in histories for point in one.points):
        known = points.get(point.sha)
        if known is None or len(known.parents) < len(point.parents):
            points[point.sha] = point
    ordered = tuple(_in_order(points))
    causes = {(s.row, s.parent, s.sha): s.cause for one in histories for s in one.steps}
    return joined(first, ordered, lambda step: causes.get((step.row, step.parent, step.sha)))


def _in_order(points: Mapping[str, Point]) -> Iterator[Point]:
    """Yields each commit after those that it follows.

    Raises:
        AttnMemError: a commit follows itself.
    """
    try:
        TopologicalSorter({sha: point.parents for sha, point in points.items()}).prepare()
    except CycleError as error:
        sha = shown(error.args[1][0])
        raise AttnMemError(f"cannot merge these histories: commit {sha} follows itself") from error
    done: set[str] = set()
    for first in points.values():
        waiting = [first]
        while waiting:
            point = waiting[-1]
            before = [points[sha] for sha in point.parents if sha in points and sha not in done]
            if before:
                waiting += before
                continue
            waiting.pop()
            if point.sha not in done:
                done.add(point.sha)
                yield point

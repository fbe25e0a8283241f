"""The steps of a history: where a row's bytes are not those of the commit before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ..baselines.entries import row_name
from ..commits.repository import Repository
from ..report import json
from ..report.session_diff import is_measured
from .project_history import Cause, Measured, Point, ProjectHistory, Step


class _State(NamedTuple):
    """The newest number of a row at or before a commit."""

    value: int
    sha: str
    gaps: tuple[object, ...] | None
    """The commits without a number since then: the last one, and those before it."""


def find_steps(points: Sequence[Point], rows: Iterable[str]) -> list[Step]:
    """Returns each change of bytes from a commit to the next, in the order of the commits.

    A commit is compared with the newest commit before it that has a number. A merge that has the
    bytes of one of its parents, or the sum of what its branches changed, is no step: those are.
    """
    by_sha = {point.sha: point for point in points}
    found: list[Step] = []
    for row in rows:
        found += _of_row(row, points, by_sha)
    place = {point.sha: number for number, point in enumerate(points)}
    return sorted(found, key=lambda step: place[step.sha])


def _of_row(row: str, points: Sequence[Point], by_sha: Mapping[str, Point]) -> Iterator[Step]:
    states: dict[str, _State] = {}
    for point in points:
        known = [states[sha] for sha in point.parents if sha in states]
        value = point.measured.values.get(row)
        if value is None:
            if known:
                states[point.sha] = known[0]._replace(gaps=(point.sha, known[0].gaps))
            continue
        if known and all(state.value != value for state in known):
            merged = len(point.parents) > 1 and _is_sum(value, point.parents, states, by_sha)
            if not merged:
                before = known[0]
                gaps = tuple(_listed(before.gaps))
                yield Step(row, before.sha, point.sha, before.value, value, gaps)
        states[point.sha] = _State(value, point.sha, None)


def _listed(gaps: tuple[object, ...] | None) -> list[str]:
    found: list[str] = []
    while gaps:
        found.append(str(gaps[0]))
        gaps = gaps[1] if isinstance(gaps[1], tuple) else None
    return found[::-1]


def _is_sum(
    value: int,
    parents: Sequence[str],
    states: Mapping[str, _State],
    by_sha: Mapping[str, Point],
) -> bool:
    """Returns True if a merge has what all its branches added since they parted."""
    first, *others = parents
    for other in others:
        base = next((sha for sha in _shared(first, other, by_sha) if sha in states), "")
        if base and first in states and other in states:
            added = states[other].value - states[base].value
            if value == states[first].value + added:
                return True
    return False


def _shared(one: str, other: str, by_sha: Mapping[str, Point]) -> Iterator[str]:
    """Yields the common ancestors of two commits, the nearest to ``other`` first."""
    mine, others = (_reached(sha, lambda sha: by_sha[sha].parents) for sha in (one, other))
    known = {*mine}
    return (sha for sha in others if sha in known)


def _reached(sha: str, beside: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """Yields a commit and all that those beside it lead to, the nearest first."""
    seen, waiting = {sha}, [sha]
    for one in waiting:  # it grows
        yield one
        new = [other for other in beside(one) if other not in seen]
        seen.update(new)
        waiting += new


def with_ends(steps: Sequence[Step], points: Sequence[Point]) -> list[Step]:
    """Returns the steps, each growth with the commit that undid it, if one did.

    That is the first commit after it with no more bytes than before it, or whose own step takes
    away the kind of tensor that the growth is mostly made of.
    """
    by_sha = {point.sha: point for point in points}
    place = {point.sha: number for number, point in enumerate(points)}
    children: dict[str, list[str]] = {}
    for point in points:
        for parent in point.parents:
            children.setdefault(parent, []).append(point.sha)
    own = {(step.row, step.sha): step for step in steps}

    def ends(step: Step, point: Point) -> bool:
        value = point.measured.values.get(step.row)
        if value is not None and value <= step.before:
            return True
        other = own.get((step.row, point.sha))
        return other is not None and _takes_away(other, step)

    found = []
    for step in steps:
        if step.delta > 0:
            later = _reached(step.sha, lambda sha: children.get(sha, ()))
            numbers = sorted(place[sha] for sha in later if sha != step.sha)
            end = next((points[n] for n in numbers if ends(step, by_sha[points[n].sha])), None)
            step = replace(step, ended_by=end.sha if end else "")
        found.append(step)
    return found


def _takes_away(other: Step, step: Step) -> bool:
    """Returns True if a step removes at least half of the tensors that another one mostly added."""
    if other.delta >= 0 or step.cause is None or other.cause is None or not step.cause.tensors:
        return False
    main = max(step.cause.tensors, key=lambda one: one.delta_bytes)
    gone = sum(one.delta_bytes for one in other.cause.tensors if one.kind == main.kind)
    return -2 * gone >= main.delta_bytes > 0


def joined(
    history: ProjectHistory, points: tuple[Point, ...], cause_of: Callable[[Step], Cause | None]
) -> ProjectHistory:
    """Returns the history of other commits: their steps, with the causes that are known."""
    whole = replace(history, points=points, steps=())
    steps = [replace(one, cause=cause_of(one)) for one in find_steps(points, whole.rows)]
    return replace(whole, steps=tuple(with_ends(steps, points)))


def with_session(
    history: ProjectHistory | None, session: Path, repository: Repository
) -> ProjectHistory:
    """Returns the history with the results of a session as those of HEAD, after its newest commit.

    Results of HEAD that it has already are replaced. Without a history, it begins here.

    Raises:
        AttnMemError: the session cannot be read, or git fails.
    """
    rows, environment = json.load(session)
    sha = repository.resolved("HEAD")
    commit = repository.describe([sha])[sha]
    values: dict[str, int] = {}
    gaps: dict[str, str] = {}
    for row in rows:
        name = row_name((row.nodeid, row.region, row.metric))
        if is_measured(row):
            values[name] = max(values.get(name, 0), row.value or 0)
        elif row.reason:
            gaps[name] = row.reason
    places = dict.fromkeys(row.place for row in rows if row.place)
    facts = {"backend": ", ".join(places), "torch": str(environment.get("torch")), "tests": "CI"}
    old = history or ProjectHistory(repository.name, facts, ())
    before = [point for point in old.points if point.sha != sha]
    parents = (before[-1].sha,) if before else ()
    new = Point(sha, parents, commit.author, commit.date, commit.subject, Measured(values, gaps))
    causes = {(step.row, step.sha): step.cause for step in old.steps}
    return joined(
        replace(old, facts=facts), (*before, new), lambda step: causes.get((step.row, step.sha))
    )

"""Adds a session of pytest to a history, as one more commit: what CI keeps on a branch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..commits.repository import Repository
from ..commits.warm_process import named
from ..report import json
from ..report.session_diff import is_measured
from .project_history import Measured, Point, ProjectHistory
from .steps import find_steps, with_ends


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
        name = named((row.nodeid, row.region, row.metric))
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
    points = (*before, new)
    causes = {(step.row, step.sha): step.cause for step in old.steps}
    joined = replace(old, facts=facts, points=points, steps=())
    steps = [
        replace(step, cause=causes.get((step.row, step.sha)))
        for step in find_steps(points, joined.rows)
    ]
    return replace(joined, steps=tuple(with_ends(steps, points)))

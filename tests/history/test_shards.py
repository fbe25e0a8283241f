"""Parts of a history, joined."""

from dataclasses import replace

import pytest

from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.history.project_history import Cause
from pytest_attnmem.history.shards import merged
from pytest_attnmem.history.steps import find_steps

from .histories import ROW, chain, history


def test_a_step_between_two_parts_is_found_and_known_causes_stay():
    points = chain(10, 12, None, 15, 15)
    first = [replace(step, cause=Cause(10, 12)) for step in find_steps(points[:3], [ROW])]
    before = replace(points[2], parents=())
    parts = [history([before, *points[3:]]), history(points[:3], steps=tuple(first))]
    whole = merged(parts)
    assert whole.points == tuple(points)
    assert [(s.sha, s.gaps, s.cause) for s in whole.steps] == [
        ("1", (), Cause(10, 12)),
        ("3", ("2",), None),
    ]


def test_parts_of_different_environments_are_not_joined():
    one = history(chain(10))
    other = replace(one, facts={**one.facts, "torch": "2.14.0"})
    with pytest.raises(AttnMemError) as error:
        merged([one, other])
    assert str(error.value) == (
        "cannot merge these histories: torch is '2.13.0' in one and '2.14.0' in the other"
    )


def test_a_commit_that_follows_itself_is_refused():
    first, second = chain(10, 12)
    with pytest.raises(AttnMemError, match=r"^cannot merge these histories: commit '[01]' follows"):
        merged([history([replace(first, parents=("1",)), second])])

"""The search for the first bad commit."""

import pytest

from pytest_attnmem.bisection.search import Found, State, search

STATES = {"g": State.GOOD, "b": State.BAD, "-": State.SKIPPED}


def look(commits: str) -> tuple[Found, list[int]]:
    seen = []

    def state(number: int) -> State:
        seen.append(number)
        return STATES[commits[number]]

    return search(len(commits), state), seen


@pytest.mark.parametrize("first", range(1, 128))
def test_128_commits_take_seven_measurements_and_the_ends(first):
    found, seen = look("g" * first + "b" * (128 - first))
    assert (found.good, found.bad, [*found.candidates]) == (first - 1, first, [first])
    assert len(seen) <= 7


@pytest.mark.parametrize(
    ("commits", "candidates"),
    [
        ("gb", [1]),
        ("g-b", [1, 2]),
        ("gg-b", [2, 3]),
        ("g---b", [1, 2, 3, 4]),
        ("gggg-bbbb", [4, 5]),
        ("gg-g-bb-b", [4, 5]),
        ("g-gbb-b", [3]),
    ],
)
def test_a_commit_that_cannot_be_measured_leaves_candidates(commits, candidates):
    found, seen = look(commits)
    assert [*found.candidates] == candidates
    assert len(seen) == len({*seen})

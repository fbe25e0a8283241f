"""The steps between commits: by equality of bytes, along the parents of each commit."""

from dataclasses import replace

import pytest

from pytest_attnmem.history.project_history import Cause, Measured, TensorChange
from pytest_attnmem.history.steps import find_steps, with_ends
from pytest_attnmem.history.text import causes, markdown, sparkline, table

from .histories import ROW, chain, history, point


def told(points, rows=(ROW,)):
    return [(step.sha, step.before, step.after, step.gaps) for step in find_steps(points, rows)]


@pytest.mark.parametrize(
    ("values", "steps"),
    [
        ([10, 10, 10], []),
        ([10, 11, 11, 9], [("1", 10, 11, ()), ("3", 11, 9, ())]),
        ([None, 10, 10], []),
        ([10, None, None, 10], []),
        ([10, None, None, 12], [("3", 10, 12, ("1", "2"))]),
        ([10, 12, None], [("1", 10, 12, ())]),
    ],
)
def test_a_step_is_where_bytes_differ_from_the_newest_number_before(values, steps):
    assert told(chain(*values)) == steps


@pytest.mark.parametrize(
    ("ours", "theirs", "merge", "steps"),
    [
        (10, 10, 10, []),
        (10, 15, 15, ["theirs"]),
        (12, 10, 12, ["ours"]),
        (12, 15, 17, ["ours", "theirs"]),  # the sum of both
        (12, 15, 18, ["ours", "theirs", "merge"]),
        (10, 10, 13, ["merge"]),
        (None, 10, 10, []),
    ],
)
def test_a_merge_is_a_step_only_if_its_branches_do_not_explain_it(ours, theirs, merge, steps):
    points = [
        point("base", 10),
        point("ours", ours, "base"),
        point("theirs", theirs, "base"),
        point("merge", merge, "ours", "theirs"),
        point("after", merge, "merge"),
    ]
    assert [step[0] for step in told(points)] == steps


def test_commits_of_another_branch_are_not_compared():
    """In the order of dates, the two branches alternate."""
    points = [
        point("base", 10),
        point("a1", 20, "base"),
        point("b1", 10, "base"),
        point("a2", 20, "a1"),
        point("b2", 10, "b1"),
    ]
    assert [step[0] for step in told(points)] == ["a1"]


def ends(points, known=()):
    steps = find_steps(points, [ROW])
    for place, cause in enumerate(known):
        steps[place] = replace(steps[place], cause=cause)
    return [(step.sha, step.ended_by) for step in with_ends(steps, points)]


def test_a_growth_ends_where_no_more_bytes_are_left_than_before_it():
    assert ends(chain(10, 12, 13, 12, 10)) == [("1", "4"), ("2", "3"), ("3", ""), ("4", "")]
    assert ends(chain(10, 12, None, 9)) == [("1", "3"), ("3", "")]
    points = [point("base", 10), point("a", 12, "base"), point("b", 9, "base")]
    assert ends(points) == [("a", ""), ("b", "")]  # not on a branch that never had it


def test_it_ends_where_its_tensors_are_gone_though_others_came_meanwhile():
    clones = TensorChange("+8 B  clone", "clone float32 [2]", 8)
    known = [
        Cause(10, 18, tensors=(clones,)),
        Cause(18, 30, tensors=(TensorChange("+12 B  mm", "mm float32 [3]", 12),)),
        Cause(30, 22, tensors=(replace(clones, delta_bytes=-8),)),
    ]
    assert ends(chain(10, 18, 30, 22), known) == [("1", "3"), ("2", ""), ("3", "")]


TENSOR = TensorChange("+8.0 KiB  [2048] float32 clone  a.py:3 in f", "clone", 8192, holder="Net.x")


def made():
    points = chain(8192, 16384, None, 4096, 8192)
    measured = Measured({ROW: 16384}, used={"torch._six": "removed"})
    points[1] = replace(points[1], subject="Keep *all* of it", measured=measured)
    steps = find_steps(points, [ROW])
    steps[0] = replace(steps[0], cause=Cause(8192, 16384, "+8*N: one more", (TENSOR,)))
    steps[1] = replace(steps[1], cause=Cause(16384, None))
    return history(points, steps=tuple(with_ends(steps, points)))


def test_the_table_has_rows_steps_gaps_and_what_stood_in():
    assert table(made()) == [
        "net: 4 of 5 commits measured; simulated:H100, torch 2.13.0, t.py",
        "",
        "row      over commits      first     last    least      most    steps",
        "-------  --------------  -------  -------  -------  --------  -------",
        "t.py::a  ▄█▁▄            8.0 KiB  8.0 KiB  4.0 KiB  16.0 KiB        3",
        "",
        "1 2026-01-02 Ada: Keep *all* of it",
        "  t.py::a  8.0 KiB → 16.0 KiB (+8,192 B, +100.0 %); undone by 3 after 2 days",
        "    +8*N: one more  held by Net.x",
        "",
        "3 2026-01-04 Ada: subject of 3",
        "  t.py::a  16.0 KiB → 4.0 KiB (-12,288 B, -75.0 %); here or in the one before it that"
        " cannot be measured; not confirmed: alone it is 16384 B → None B",
        "",
        "4 2026-01-05 Ada: subject of 4",
        "  t.py::a  4.0 KiB → 8.0 KiB (+4,096 B, +100.0 %); still there; not confirmed",
        "",
        "gaps:",
        "  1 × ImportError: x",
        "",
        "not here as the commits know it: torch._six (removed)",
    ]


def test_markdown_escapes_what_a_commit_says():
    lines = markdown(made())
    assert (
        "| t.py::a | ▄█▁▄           | 8.0 KiB | 8.0 KiB | 4.0 KiB | 16.0 KiB |       3 |" in lines
    )
    assert "**1 2026-01-02 Ada: Keep \\*all\\* of it**" in lines
    assert "    - `+8*N: one more  held by Net.x`" in lines
    # Tensors are listed where no term is proved.
    step = replace(made().steps[0], cause=Cause(8192, 16384, "", (TENSOR,)))
    assert causes(step) == ["+8.0 KiB  [2048] float32 clone  a.py:3 in f  held by Net.x"]


@pytest.mark.parametrize(
    ("sizes", "line"),
    [([5], "▁"), ([1, 1], "▁▁"), ([0, 1, 100], "▁▂█"), ([1] * 99 + [2], "▁" * 19 + "█")],
)
def test_a_line_has_the_largest_of_each_part(sizes, line):
    assert sparkline(sizes) == line

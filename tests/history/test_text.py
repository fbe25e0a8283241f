"""The table of a history, in a terminal and in Markdown."""

from dataclasses import replace

import pytest

from pytest_attnmem.history.project_history import Cause, Measured, TensorChange
from pytest_attnmem.history.steps import find_steps, with_ends
from pytest_attnmem.history.text import markdown, sparkline, table

from .histories import ROW, chain, history

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
        "    +8*N: one more",
        "    +8.0 KiB  [2048] float32 clone  a.py:3 in f  held by Net.x",
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
    assert "    - `+8*N: one more`" in lines


@pytest.mark.parametrize(
    ("sizes", "line"),
    [([5], "▁"), ([1, 1], "▁▁"), ([0, 1, 100], "▁▂█"), ([1] * 99 + [2], "▁" * 19 + "█")],
)
def test_a_line_has_the_largest_of_each_part(sizes, line):
    assert sparkline(sizes) == line

"""The changes that another version of torch made."""

from dataclasses import replace

import pytest

from pytest_attnmem.budgets.tolerance import NONE
from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.report.record import Record
from pytest_attnmem.report.session_diff import (
    Change,
    ChangeKind,
    Upgrade,
    Workspace,
    by_operator,
    differences,
    upgrade,
)

ROW = Record("a.py::test", outcome=Outcome.WITHIN, backend="cpu", device="cpu", peak_bytes=100)


def between(old: object, new: object, *rows: tuple[Record, Record]) -> Upgrade | None:
    before, after = zip(*(rows or ((ROW, ROW),)), strict=True)
    there, here = {"torch": old}, {"torch": new}
    return upgrade(there, here, differences((before, there), (after, here), NONE))


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("2.13.0", "2.15.0", "upgrade"),
        ("2.9.1", "2.10.0", "upgrade"),  # numbers, not texts
        ("2.13.0+cu130", "2.13.1+cpu", "upgrade"),
        ("2.15.0", "2.13.0", "downgrade"),
        ("2.13.0+cpu", "2.13.0+cu130", None),
        ("2.13.0", "2.13.0", None),
        (None, "2.13.0", None),  # a session that never imported torch
        ("2.13.0", None, None),
    ],
)
def test_a_change_of_the_public_version_is_one(old: object, new: object, name: str | None) -> None:
    found = between(old, new)
    assert (found.name if found else None) == name
    if found:
        assert (found.old, found.new) == (old, new)


def test_workspaces_are_counted_by_place_and_size() -> None:
    def row(test: str, workspace: int, backend: str = "null:H100") -> Record:
        return replace(ROW, nodeid=test, backend=backend, workspace_bytes=workspace)

    found = between(
        "2.13.0",
        "2.15.0",
        (row("a", 64), row("a", 0)),
        (row("b", 64), row("b", 0)),
        (row("c", 16, "null:A100"), row("c", 0, "null:A100")),
        (row("d", 8), row("d", 8)),
        (row("e", 64), replace(row("e", 0), outcome=Outcome.NOT_ENFORCED)),  # not measured
    )
    assert found.workspaces == (Workspace("null:A100", 16, 0, 1), Workspace("null:H100", 64, 0, 2))


def tensors(**sizes: int) -> tuple[Held, ...]:
    return tuple(Held(nbytes, (), "", op, "") for op, nbytes in sizes.items())


@pytest.mark.parametrize(
    ("old", "new", "grown"),
    [
        ({"mm": 60, "randn": 40}, {"mm": 110, "randn": 30}, {"mm": 50, "randn": -10}),
        ({"mm": 60, "randn": 40}, {"mm": 100, "randn": 30}, {}),  # 10 bytes are nobody's
        ({}, {"mm": 140}, {}),  # the tensors of one session are not listed
    ],
)
def test_operators_account_for_every_byte_or_are_not_named(old, new, grown) -> None:
    before = replace(ROW, held=tensors(**old))
    after = replace(ROW, peak_bytes=140, held=tensors(**new))
    assert by_operator(Change(ChangeKind.GREW, before, after)) == grown
    assert by_operator(Change(ChangeKind.REMOVED, before, None)) == {}


def test_the_largest_change_comes_first() -> None:
    before = replace(ROW, held=tensors(mm=100))
    after = replace(ROW, peak_bytes=200, held=(*tensors(mm=50, bmm=120), Held(30, (), "", "", "")))
    grown = by_operator(Change(ChangeKind.GREW, before, after))
    assert [*grown.items()] == [("bmm", 120), ("mm", -50), ("no operator", 30)]

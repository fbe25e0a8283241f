"""The data of growth charts: slices of grids, a test's own parameters, and curves."""

from dataclasses import replace

import pytest

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.report.growth_curves import MOST, growths, series, shared
from pytest_attnmem.report.record import Record

CONTRACT = Record(
    "a.py::test[64]",
    outcome=Outcome.OVER,
    shape={"N": 64, "M": 64, "d": 8},
    budget="O(N*d)",
    peak_bytes=8192,
    growth=({"sizes": {"N": [8, 16, 32]}, "peaks": [128, 512, 2048], "formula": "2*N^2"},),
)


def flash(size: int, peak: int, **changes: object) -> Record:
    """Returns the row of one parameter of a test."""
    row = Record(
        f"a.py::test_flash[fp16-{size}]",
        outcome=Outcome.WITHIN,
        backend="cpu",
        device="cpu",
        shape={"H": 8, "Hkv": 8, "N": size, "M": size},
        budget="16*N + 4*M",
        limit_bytes=20 * size,
        peak_bytes=peak,
    )
    return replace(row, **changes)  # type: ignore[arg-type]


def charts(row: Record, *others: Record) -> list[dict]:
    return growths(row, series([row, *others]))


def test_a_contract_has_a_chart_of_the_sizes_it_was_held_at() -> None:
    (chart,) = charts(CONTRACT)
    points = [(8, 128), (16, 512), (32, 2048)]
    assert (chart["symbol"], chart["points"], chart["contract"]) == ("N", points, 1)
    assert chart["budget"] == []
    # The fit goes through the points, and on to four times the largest.
    assert dict(chart["fit"]).items() >= dict(points).items()
    assert (chart["fit"][0], chart["fit"][-1]) == ((8, 128), (128, 2 * 128**2))
    assert chart["fit"] == sorted(chart["fit"])
    (chart,) = charts(replace(CONTRACT, growth=({**CONTRACT.growth[0], "formula": None},)))
    assert (chart["formula"], chart["fit"]) == ("", [])


def test_of_a_grid_each_symbol_is_shown_with_the_others_at_their_largest() -> None:
    grid = {"sizes": {"N": [1, 2, 3], "d": [4, 8]}, "peaks": [14, 18, 24, 28, 34, 38]}
    along_n, along_d = charts(replace(CONTRACT, growth=({**grid, "formula": "10*N + d"},)))
    assert along_n["points"] == [(1, 18), (2, 28), (3, 38)]
    assert along_d["points"] == [(4, 34), (8, 38)]
    notes = [chart["note"] for chart in (along_n, along_d)]
    assert notes == ["d=8, run to see it grow", "N=3, run to see it grow"]


@pytest.mark.parametrize(
    ("budget", "allowed"),
    [("O(N^2)", 2), ("O(d)", None), ("O(", None), ("8*N^2 + O(N)", None)],
    ids=["named", "another", "damaged", "added to a formula"],
)
def test_what_a_contract_allows(budget: str, allowed: int | None) -> None:
    (chart,) = charts(replace(CONTRACT, budget=budget))
    assert chart["contract"] == allowed


def test_a_formula_is_drawn_over_the_sizes_and_what_follows_from_them() -> None:
    row = replace(CONTRACT, budget="N*M + d", limit_bytes=64 * 64 + 8)
    (chart,) = charts(row)
    assert chart["budget"][0] == (8, 72)
    assert chart["budget"][-1] == (128, 128 * 128 + 8)


def test_parameters_that_differ_in_one_size_are_a_chart() -> None:
    rows = [flash(size, 3 * size + 1) for size in (512, 128, 256, 1024)]
    (chart,) = charts(*rows)
    assert chart["points"] == [(128, 385), (256, 769), (512, 1537), (1024, 3073)]
    assert chart["formula"] == "3*N + 1"
    assert chart["budget"][0] == (128, 2560)
    assert chart["note"] == "from the test's own parameters"
    assert charts(rows[1], *rows) == [chart]


def test_a_budget_that_is_no_formula_is_drawn_through_the_limits() -> None:
    rows = [flash(size, size, budget="flash.MODEL.forward") for size in (128, 256, 512)]
    (chart,) = charts(*rows)
    assert chart["budget"] == [(128, 2560), (256, 5120), (512, 10240)]


@pytest.mark.parametrize(
    "third",
    [
        flash(512, 9, nodeid="a.py::test_flash[fp32-512]"),
        flash(512, 9, nodeid="a.py::test_other[fp16-512]"),
        flash(512, 9, nodeid="a.py::test_flash"),
        flash(512, 9, region="forward"),
        flash(512, 9, metric="retained", retained_bytes=9),
        flash(512, 9, backend="simulated:H100"),
        flash(512, 9, shape={"H": 4, "N": 512, "M": 512}),
        flash(512, 9, peak_bytes=None),
        flash(256, 9),
    ],
    ids=["dtype", "test", "no parameters", "region", "metric", "backend", "heads", "none", "two"],
)
def test_what_differs_in_more_is_not(third: Record) -> None:
    assert charts(flash(128, 1), flash(256, 2), third) == []


def test_of_many_sizes_some_are_drawn() -> None:
    rows = [flash(size, 3 * size) for size in range(1000)]
    (chart,) = charts(rows[7], *rows)
    sizes = [size for size, _ in chart["points"]]
    assert (len(sizes), sizes[0], sizes[-1]) == (MOST, 1, 999)  # 0 is on no logarithmic scale
    assert (chart["formula"], chart["budget"][0]) == ("3*N", (1, 20))
    assert chart["note"] == "of 999 from the test's own parameters"


@pytest.mark.parametrize("budget", ["0", "16*N", "1000/N", "log2(N)", "O(N)", "model.forward", ""])
@pytest.mark.parametrize("sizes", [range(5), range(-3, 3), (1, 2, 2**511)], ids=str)
@pytest.mark.parametrize("peak", [0, -1, 2**511])
def test_no_size_breaks_a_chart(budget: str, sizes: range, peak: int) -> None:
    rows = [flash(size, peak, budget=budget, limit_bytes=0) for size in sizes]
    for row in rows:
        for chart in charts(row, *rows):
            assert min(size for size, _ in chart["points"]) >= 1


@pytest.mark.parametrize(
    "growth",
    [
        1,
        "x",
        {},
        {"sizes": {"N": [1, 2]}, "peaks": [1, 2]},
        {"sizes": 3, "peaks": [1], "formula": None},
        {"sizes": {"N": 3}, "peaks": [1], "formula": None},
        {"sizes": {"N": ["a"]}, "peaks": [1], "formula": None},
        {"sizes": {"N": [1]}, "peaks": [float("nan")], "formula": None},
        {"sizes": {"N": [1, 10**400]}, "peaks": [1, 2], "formula": "N"},
        {"sizes": {"N": [1, 2]}, "peaks": [1, 2], "formula": 7},
        # Of these, none is a grid.
        {"sizes": {"N": [1, 2]}, "peaks": [1], "formula": "N"},
        {"sizes": {"N": []}, "peaks": [], "formula": "N"},
        {"sizes": {}, "peaks": [], "formula": "N"},
        {"sizes": {"N": [0, 1]}, "peaks": [1, 2], "formula": "N"},
    ],
    ids=range(14),
)
def test_damaged_growth_has_no_chart(growth: object) -> None:
    assert charts(replace(CONTRACT, growth=(growth,))) == []  # type: ignore[arg-type]


def test_rows_share_charts_where_nothing_in_them_is_a_rows_own() -> None:
    same = {"budget": "4096", "limit_bytes": 4096}
    rows = [flash(size, size * 8, **same) for size in (8, 16, 32, 64)]
    found = series(rows)
    (key,) = {shared(row, found) for row in rows}
    assert key is not None
    first, *others = (growths(row, found) for row in rows)
    assert all(other == first for other in others)
    assert shared(replace(rows[0], limit_bytes=4095), found) != key
    assert shared(replace(rows[0], growth=CONTRACT.growth), found) is None
    assert shared(flash(8, 64, nodeid="a.py::test_alone"), found) is None

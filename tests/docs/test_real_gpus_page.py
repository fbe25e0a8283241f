"""The page of published numbers is what its data say, and the data are of one shape."""

from dataclasses import replace
from decimal import Decimal

import pytest
import suites

pytest.importorskip("tomllib", reason="tomllib is of Python 3.11")
with suites.scripts("published", "page", "tables") as (page, tables):
    pass


def every():
    return [(name, table) for name, one in tables.sources().items() for table in one.tables]


def test_the_page_is_current():
    assert page.PAGE.read_text(encoding="utf-8") == page.page()


def test_the_readme_has_the_totals_of_the_page():
    readme = (page.ROOT / "README.md").read_text("utf-8")
    pairs = [pair for one in page.shown() for pair in one.numbers]
    assert f"[{len(pairs):,} numbers of real GPUs]" in readme
    assert f"\n{sum(pair.equal for pair in pairs):,} and is within 1 % in " in readme
    assert f" is within 1 % in {sum(pair.near for pair in pairs):,}, a training" in readme
    assert any(one.table.ranks == 128 and all(p.near for p in one.pairs) for one in page.shown())


def test_each_table_has_a_result_or_a_reason():
    for name, table in every():
        assert bool(table.not_comparable) != (table.key() in tables.results(name)), table.what


def test_no_result_is_left_of_another_table():
    for name, source in tables.sources().items():
        assert tables.results(name).keys() <= {table.key() for table in source.tables}, name
    assert {path.stem for path in tables.DATA.glob("*.json")} <= tables.sources().keys()


def test_what_differs_has_a_reason_and_nothing_else_has_one():
    for one in page.shown():
        differs = not all(pair.equal for pair in one.pairs)
        assert bool(one.table.reason) == differs, f"{one.source.name}: {one.table.what}"


def test_the_shape_of_the_tables():
    for _, table in every():
        assert table.kind in page.KINDS
        assert table.unit in tables.UNITS
        for row in table.rows:
            numbers = row[len(table.sizes) :]
            for number, value in zip(table.numbers, numbers, strict=True):
                exact = str if number in page.LISTS else int
                assert isinstance(value, exact if table.unit == "B" else (int, Decimal))


def test_at_least_1300_numbers_of_nineteen_sources_are_compared():
    found = [*page.shown()]
    assert sum(len(one.numbers) for one in found) >= 1300
    assert len({one.source.source for one in found}) >= 19


@pytest.mark.parametrize(
    ("unit", "published", "nbytes", "near"),
    [
        ("B", 1000, 1010, True),
        ("B", 1000, 1011, False),
        ("B", 1000, 989, False),
        ("B", 0, 1, False),
        ("GiB", Decimal("82.4"), 88587894784, True),
        ("GiB", Decimal("44.59"), 43473960960, False),
        ("B", "3 abc", "4 abc", False),
        ("B", 1000, None, False),
    ],
)
def test_a_number_within_a_hundredth_is_near(unit, published, nbytes, near):
    table = replace(every()[0][1], unit=unit)
    assert table.is_near(published, nbytes) is near


@pytest.mark.parametrize(
    ("unit", "digits", "published", "nbytes", "equal"),
    [
        ("B", "as published", 512, 512, True),
        ("B", "as published", 512, 1024, False),
        ("MiB", "as published", Decimal("16.75"), 17563648, True),
        ("MiB", "as published", Decimal("16.75"), 17563648 + 512, True),  # 16.7505
        ("MiB", "as published", Decimal("16.7500"), 17563648 + 512, False),
        ("MiB", 6, Decimal("16.7505"), 17563648 + 512, True),
        ("MiB", 6, Decimal("4129"), 4129 * 2**20, True),
        ("MiB", 6, Decimal("4129"), 4129 * 2**20 + 2**13, False),
        ("MiB", "float32", Decimal("8192.328125"), 8590278656, True),
        ("MiB", "float32", Decimal("8192.328125"), 8590278656 + 1024, False),
        ("GiB", "as published", Decimal("64.130"), 68858892288, True),
        ("MB", "as published", Decimal("1.5"), 1500000, True),
        ("B", "as published", "3 abc", "3 abc", True),
        ("B", "as published", "3 abc", "4 abc", False),
        ("MiB", "as published", Decimal("1"), None, False),
    ],
)
def test_what_is_equal(unit, digits, published, nbytes, equal):
    texts = dict.fromkeys(("what", "kind", "gpu", "torch", "device", "rerun", "program"), "")
    table = tables.Table(**texts, unit=unit, sizes=[], numbers=["peak"], rows=[[0]])
    assert table.is_equal(published, nbytes, digits) == equal

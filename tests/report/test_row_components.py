"""The components of a row in the panel."""

from dataclasses import replace

import pytest
from hypothesis import given

from pytest_attnmem.measurement.held import Held
from pytest_attnmem.report.html import NOT_ATTRIBUTED, components
from pytest_attnmem.report.record import Record

from .rows import records

SCORES = Held(4096, (2, 8, 8, 8), "float32", "softmax", "a.py:1")
OUTPUT = Held(2048, (2, 8, 8, 4), "float32", "bmm", "a.py:2")
ROW = Record("a", shape={"B": 2, "H": 8, "N": 8, "d": 4}, peak_bytes=6144, held=(SCORES, OUTPUT))


def parts(row: Record) -> list[tuple[str, int, str]]:
    return [(part.name, part.nbytes, part.growth) for part in components(row)]


@pytest.mark.parametrize("apart", [1000, -1000, 1], ids=["missing", "too much", "a byte"])
def test_what_no_tensor_accounts_for_is_told(apart: int) -> None:
    assert (NOT_ATTRIBUTED, apart, "") in parts(replace(ROW, peak_bytes=6144 + apart))


def test_of_the_end_or_of_nothing_known_other_tensors_count_and_no_workspace_does() -> None:
    row = replace(ROW, metric="retained", retained_bytes=6145)
    assert (NOT_ATTRIBUTED, 1, "") in parts(row)
    unknown = (replace(row, retained_bytes=None), replace(ROW, held=()))
    for one in (*unknown, replace(ROW, peak_bytes=None)):
        assert parts(one) == []
    assert parts(replace(ROW, workspace_bytes=512)) == parts(ROW)


def test_what_is_proved_has_symbols_and_grows() -> None:
    assert parts(ROW) == [("softmax [2, 8, 8, 8]", 4096, ""), ("bmm [2, 8, 8, 4]", 2048, "")]
    proved = replace(SCORES, dims=("B", "H", "N", "N"))
    assert parts(replace(ROW, held=(proved, OUTPUT))) == [
        ("softmax [B, H, N, N]", 4096, "O(B·H·N²)"),
        ("bmm [2, 8, 8, 4]", 2048, ""),
    ]


def test_a_repeated_mask_and_tiles_are_what_made_them() -> None:
    """A tensor of the shape of scores, [B, H, N, N], is not scores for that reason."""
    mask = Held(2048, (2, 8, 8, 8), "bool", "repeat", "a.py:3")
    tiles = Held(512, (2, 8, 8, 4), "float32", "bmm", "a.py:4")
    roles = tuple(replace(OUTPUT, role=role) for role in ("parameter", "gradient", "optimizer"))
    held = (mask, tiles, tiles, *roles)
    assert parts(replace(ROW, held=held, peak_bytes=9216)) == [
        ("repeat [2, 8, 8, 8]", 2048, ""),
        ("parameters", 2048, ""),
        ("gradients of parameters", 2048, ""),
        ("made by the optimizer", 2048, ""),
        ("bmm [2, 8, 8, 4]", 1024, ""),
    ]


def test_a_long_list_ends_in_the_small_ones_together() -> None:
    held = tuple(replace(OUTPUT, nbytes=100 - n, shape=(100 - n,)) for n in range(14))
    found = parts(replace(ROW, held=held, peak_bytes=sum(one.nbytes for one in held)))
    assert len(found) == 12
    assert found[0] == ("other tensors", 89 + 88 + 87, "")
    assert found[1] == ("bmm [100]", 100, "")


@given(records)
def test_they_sum_to_what_was_measured(row: Record) -> None:
    found = components(row)
    total = row.retained_bytes if row.metric == "retained" else row.peak_bytes
    if row.held and total is not None:
        assert sum(part.nbytes for part in found) == total
    else:
        assert found == ()

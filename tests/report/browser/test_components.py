"""The panel of a peak's components."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_attnmem.measurement.held import Held
from pytest_attnmem.report.record import Record

from .conftest import DESKTOP, PHONE, Shown
from .test_table import CONTRAST

Show = Callable[..., Shown]
MIB = 1024**2
SQUARE, ROWS = ("B", "H", "N", "N"), ("B", "H", "N", "d")
ROW = Record(
    "a",
    shape={"B": 2, "H": 8, "N": 512, "d": 64},
    peak_bytes=40 * MIB,
    held=(
        Held(16 * MIB, (2, 8, 512, 512), "float32", "softmax", "a.py:1", dims=SQUARE),
        Held(8 * MIB, (2, 8, 512, 512), "float16", "mul", "a.py:2", dims=SQUARE),
        Held(6 * MIB, (2, 8, 512, 64), "float32", "bmm", "a.py:3", dims=ROWS),
    ),
)


def table(shown: Shown) -> list[list[str]]:
    rows = shown.open("a").locator(".components table tr").all()
    return [row.locator("th, td").all_inner_texts() for row in rows]


def test_the_table_adds_up_to_the_peak(show: Show) -> None:
    assert table(show(ROW)) == [
        ["component", "size", "bytes", "%", "tensors", "grows as"],
        ["Asoftmax [B, H, N, N]", "16.0 MiB", "16,777,216 B", "40.0", "1", "O(B·H·N²)"],
        ["not attributed", "10.0 MiB", "10,485,760 B", "25.0", "–", ""],
        ["Bmul [B, H, N, N]", "8.0 MiB", "8,388,608 B", "20.0", "1", "O(B·H·N²)"],
        ["Cbmm [B, H, N, d]", "6.0 MiB", "6,291,456 B", "15.0", "1", "O(B·H·N·d)"],
        ["all of it", "40.0 MiB", "41,943,040 B", "100.0", "3", ""],
    ]


def test_the_bar_has_a_segment_each_as_wide_as_its_share(show: Show) -> None:
    shown = show(ROW)
    keys = shown.open("a").locator(".stacked .key")
    widths = [key.bounding_box()["width"] for key in keys.all()]
    assert [width / sum(widths) for width in widths] == pytest.approx([0.4, 0.25, 0.2, 0.15], 0.01)
    assert keys.all_inner_texts() == ["A", "", "B", "C"]
    assert keys.nth(1).get_attribute("class").endswith("hatched")


def test_more_than_the_peak_is_said(show: Show) -> None:
    shown = show(replace(ROW, peak_bytes=20 * MIB))
    assert ["not attributed", "-10.0 MiB", "-10,485,760 B", "-50.0", "–", ""] in table(shown)
    assert "seen in another run" in shown.page.locator(".components .note").inner_text()


def test_without_symbols_there_is_no_scaling(show: Show) -> None:
    unproved = tuple(replace(held, dims=()) for held in ROW.held)
    head, *_ = table(show(replace(ROW, held=unproved)))
    assert head == ["component", "size", "bytes", "%", "tensors"]


def test_where_no_tensor_is_known_there_is_no_panel(show: Show) -> None:
    assert show(replace(ROW, held=())).open("a").locator(".components").count() == 0


@pytest.mark.parametrize("peak", [0, 2**511], ids=["nothing", "beyond a browser's numbers"])
def test_any_peak_is_told_apart(show: Show, peak: int) -> None:
    *_, last = table(show(replace(ROW, peak_bytes=peak)))
    assert last[2] == f"{peak:,} B"


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read(show: Show, viewport: dict[str, int], scheme: str) -> None:
    shown = show(ROW, viewport=viewport, color_scheme=scheme)
    shown.open("a")
    assert shown.overflow() == 0
    ratio, where = shown.page.evaluate(CONTRAST)
    assert ratio >= 4.5, where

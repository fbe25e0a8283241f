"""The charts in the details of a row: memory over time, and over sizes."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.timeline import Allocation, Timeline
from pytest_attnmem.report.record import Record

from .conftest import DESKTOP, PHONE, Shown

Show = Callable[..., Shown]
MIB = 1024**2
#: The top and the bottom of a shape, without its stroke.
BOX = "(shape) => { const {y, height} = shape.getBBox(); return [y, y + height]; }"


def held(mebibytes: int, op: str, line: int) -> Held:
    return Held(
        mebibytes * MIB, (mebibytes, 512, 512), "float32", op, f"attn.py:{line}", "attention"
    )


LIVES = Timeline(
    8,
    (
        Allocation(held(16, "bmm", 3), 0, 5),
        Allocation(held(32, "softmax", 4), 1, None),
        Allocation(held(8, "bmm", 3), 2, 4),
        Allocation(Held.of_scratch(MIB, "cumsum", "attn.py:5"), 3, 6),
    ),
    "the second run",
)
ROW = Record(
    "a.py::test_it",
    outcome=Outcome.OVER,
    reason="peak 57.0 MiB exceeds budget 40.0 MiB by 17.0 MiB on cpu",
    backend="cpu",
    device="cpu",
    shape={"N": 1024},
    budget="40960*N",
    limit_bytes=40 * MIB,
    peak_bytes=57 * MIB,
    timeline=LIVES,
    growth=(
        {
            "sizes": {"N": [128, 256, 512, 1024]},
            "peaks": [MIB, 4 * MIB, 16 * MIB, 64 * MIB],
            "formula": "64*N^2",
        },
    ),
)


def layer(page: Any, op: str) -> Any:
    return page.locator(f'.layer[aria-label^="{op}"]')


def test_a_layer_tells_what_it_is_to_who_points_at_it(show: Show) -> None:
    page = show(ROW).page
    layer(page, "softmax").hover()
    assert page.get_by_role("tooltip").inner_text().splitlines() == [
        "softmax · 32.0 MiB",
        "[32, 512, 512] float32",
        "33,554,432 B",
        "attn.py:4 in attention",
        "alive from event 1 to the end",
        "56.1% of the peak",
        "at event 4: 49.0 MiB alive in all",
    ]
    page.mouse.move(1, 1)
    assert not page.get_by_role("tooltip").is_visible()


def test_arrows_go_from_layer_to_layer(show: Show) -> None:
    page = show(ROW).page
    layer(page, "softmax").focus()
    told = []
    for key in ("ArrowRight", "ArrowRight", "End", "Home"):
        page.keyboard.press(key)
        told.append(page.get_by_role("tooltip").inner_text().splitlines()[0])
    assert told == [
        "bmm · 16.0 MiB",
        "cumsum (scratch) · 1.0 MiB",
        "bmm · 8.0 MiB",
        "softmax · 32.0 MiB",
    ]
    assert page.locator('.layer[tabindex="0"]').count() == 1


def test_layers_are_as_high_as_their_tensors_and_lie_on_each_other(show: Show) -> None:
    page = show(ROW).page
    boxes = {op: layer(page, op).first.bounding_box() for op in ("softmax", "bmm", "cumsum")}
    scale = boxes["softmax"]["height"] / 32
    assert boxes["cumsum"]["height"] == pytest.approx(scale * (1 + 16), abs=3)  # its floor falls
    assert boxes["softmax"]["x"] > boxes["bmm"]["x"]
    assert boxes["softmax"]["width"] == pytest.approx(boxes["bmm"]["width"] / 5 * 7, abs=3)


def test_the_budget_and_the_peak_are_in_the_picture(show: Show) -> None:
    figure = show(ROW).page.locator("figure.timeline")
    words = figure.locator("svg text").all_text_contents()
    assert {"budget 40.0 MiB", "peak 57.0 MiB", "bytes alive", "32 MiB"} <= {*words}
    assert "Seen in the second run." in figure.inner_text()


def test_the_legend_has_the_largest_first_and_picks_out_what_is_pointed_at(show: Show) -> None:
    page = show(ROW).page
    items = page.locator(".legend li")
    assert items.first.inner_text().splitlines() == [
        "softmax 32.0 MiB at the peak",
        "attn.py:4 in attention",
    ]
    assert items.nth(1).inner_text().startswith("bmm ×2 24.0 MiB at the peak")
    items.nth(1).hover()
    assert page.locator(".picking .layer.picked").count() == 2


def test_a_budget_far_above_is_said_and_not_drawn(show: Show) -> None:
    far = Record("a", limit_bytes=4096 * MIB, budget="4 GiB", peak_bytes=57 * MIB, timeline=LIVES)
    shown = show(far)
    words = shown.open("a").locator("figure.timeline svg text").all_text_contents()
    assert "budget 4.0 GiB is above this scale ↑" in words
    assert shown.page.locator(".budget-line").count() == 0


def test_memory_freed_from_before_lowers_the_ground(show: Show) -> None:
    gone = Allocation(Held(-8 * MIB, (), "", "(from before)", ""), 1, None)
    lives = Timeline(4, (Allocation(held(16, "bmm", 3), 0, None), gone))
    shown = show(Record("a", peak_bytes=16 * MIB, timeline=lives))
    words = shown.open("a").locator("figure.timeline svg text").all_text_contents()
    assert {"-8 MiB", "0 B", "peak 16.0 MiB"} <= {*words}
    assert shown.page.locator(".layer").count() == 1
    said = shown.page.locator(".legend li").last.inner_text()
    assert said == "from before 8.0 MiB freed: the ground sinks by it"
    zero, ground, bmm = (
        shown.page.locator(name).evaluate(BOX) for name in (".zero", "path.ground", ".layer")
    )
    assert ground == pytest.approx([zero[0], bmm[1]], abs=0.1)


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_three_hundred_lives_are_drawn(show: Show, viewport: dict[str, int]) -> None:
    spans = tuple(
        Allocation(
            held(1 + place % 7, f"op{place % 20}", place), place, 600 - place if place % 3 else None
        )
        for place in range(300)
    )
    shown = show(Record("a", peak_bytes=MIB, timeline=Timeline(601, spans)), viewport=viewport)
    shown.open("a")
    assert shown.page.locator(".layer").count() == 300
    assert shown.overflow() == 0


def test_growth_is_points_a_fit_and_the_budget(show: Show) -> None:
    page = show(ROW).page
    figure = page.locator("figure.growth")
    assert figure.locator(".point").count() == 4
    assert "peak = 64*N^2 B" in figure.inner_text()
    words = figure.locator("svg text").all_text_contents()
    assert {"N, log", "peak, log", "fit", "budget", "beyond what was measured"} <= {*words}
    assert {"1024", "64 MiB"} <= {*words}
    figure.locator(".point").last.hover()
    assert page.get_by_role("tooltip").inner_text().splitlines() == [
        "N = 1,024",
        "64.0 MiB",
        "67,108,864 B",
    ]
    cells = figure.locator(".points tbody tr").first.locator("td").all_inner_texts()
    assert cells == ["128", "1,048,576 B", "5,242,880 B"]


def test_on_logarithmic_axes_a_square_is_a_straight_line(show: Show) -> None:
    points = show(ROW).page.locator("figure.growth .point")
    boxes = [points.nth(place).bounding_box() for place in range(4)]
    steps = [(b["x"] - a["x"], b["y"] - a["y"]) for a, b in pairwise(boxes)]
    assert all(step == pytest.approx(steps[0], abs=0.5) for step in steps)


def test_a_contract_is_a_line_from_the_first_point(show: Show) -> None:
    row = Record(
        ROW.nodeid, outcome=Outcome.OVER, budget="O(N)", growth=ROW.growth, peak_bytes=64 * MIB
    )
    words = show(row).page.locator("figure.growth svg text").all_text_contents()
    assert "as O(N)" in words


def test_a_chart_is_drawn_anew_where_it_gets_another_width(show: Show) -> None:
    page = show(ROW).page
    canvas = page.locator("figure.timeline svg")
    before = canvas.get_attribute("viewBox")
    page.set_viewport_size(PHONE)
    page.locator(f'figure.timeline svg:not([viewBox="{before}"])').wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


def test_a_picture_is_taken_in_light_and_dark(show: Show) -> None:
    pictures = [
        show(ROW, color_scheme=scheme).page.locator("figure.timeline").screenshot()
        for scheme in ("light", "dark")
    ]
    assert all(picture.startswith(b"\x89PNG") for picture in pictures)
    assert pictures[0] != pictures[1]

"""The table in use."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.report.record import Record

from .conftest import PHONE, Shown

Show = Callable[..., Shown]
KIB = 1024

WITHIN = Record(
    "tests/a.py::test_within[64]",
    outcome=Outcome.WITHIN,
    backend="cpu",
    device="cpu",
    shape={"B": 1, "H": 8, "N": 64, "M": 64, "itemsize": 4},
    budget="64*N + 512",
    limit_bytes=4608,
    peak_bytes=3 * KIB,
    allocated_bytes=4 * KIB,
    retained_bytes=0,
    baseline_bytes=2 * KIB,
    baseline_state="regressed",
    allocations=3,
)
OVER = replace(
    WITHIN,
    nodeid="tests/a.py::test_over",
    outcome=Outcome.OVER,
    reason="peak 80.0 KiB exceeds budget 4.5 KiB (17.8x) on cpu",
    peak_bytes=80 * KIB,
    baseline_bytes=None,
    baseline_state="",
    held=tuple(
        Held(size * KIB, (1, 8, 64, 64), "float32", op, f"attn.py:{size}", "attention")
        for size, op in ((40, "softmax"), (30, "masked_fill"), *[(1, f"add{n}") for n in range(10)])
    ),
)
NOT_ENFORCED = Record("tests/b.py::test_skipped", outcome=Outcome.NOT_ENFORCED, reason="skipped")
MEASURED = replace(WITHIN, nodeid="tests/b.py::test_it", region="forward", outcome=None, budget="")
ROWS = (WITHIN, OVER, NOT_ENFORCED, MEASURED)

#: Returns the lowest contrast of a text to its background, by WCAG, and its place.
CONTRAST = """() => {
  const context = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const pixel = (...colours) => {
    for (const colour of colours) { context.fillStyle = colour; context.fillRect(0, 0, 1, 1); }
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => rgb.map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  let worst = [99, ""];
  for (const element of document.body.querySelectorAll(":not(script, noscript *, svg *, option)")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const { color } = getComputedStyle(element);
    if (!own || !element.checkVisibility() || color === "rgba(0, 0, 0, 0)") continue;
    const behind = ["white"];
    for (let at = element; at; at = at.parentElement) {
      behind.splice(1, 0, getComputedStyle(at).backgroundColor);
    }
    const both = [light(pixel(...behind)), light(pixel(...behind, color))];
    const ratio = (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
    if (ratio < worst[0]) worst = [ratio, element.outerHTML.slice(0, 200)];
  }
  return worst;
}"""


def test_the_head_says_what_became_of_the_session(show: Show) -> None:
    page = show(*ROWS).page
    assert page.title() == "1 of 3 budgets exceeded, 1 not enforced · memory budgets"
    assert "1 of 3 budgets exceeded" in page.locator("h1").inner_text()
    assert page.locator(".counts").inner_text() == (
        "3 budgets: 1 within, 1 over, 1 not enforced · 1 region or test without a budget"
    )
    assert "torch\n2.13.0" in page.locator(".environment").inner_text()


def test_a_page_without_rows_says_so(show: Show) -> None:
    page = show().page
    assert page.locator("main").inner_text() == "No test was marked, and no region was measured."


def test_a_click_sorts_and_another_the_other_way(show: Show) -> None:
    shown = show(*ROWS)
    assert shown.names == ["test_over", "test_skipped", "test_within[64]", "test_itforward"]
    assert shown.page.locator("th[aria-sort]").inner_text() == "outcome ↑"[:7]
    head = shown.page.locator(".results > thead th").nth(4)
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert shown.names == ["test_within[64]", "test_itforward", "test_over", "test_skipped"]
    head.get_by_role("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert shown.names == ["test_over", "test_within[64]", "test_itforward", "test_skipped"]
    assert shown.page.locator("th[aria-sort]").count() == 1


def test_typing_filters(show: Show) -> None:
    shown = show(*ROWS)
    for typed, found in (
        ("WITHIN[64]", ["test_within[64]"]),
        ("forward", ["test_itforward"]),
        ("masked_fill attn.py:30", ["test_over"]),
        ("not enforced", ["test_skipped"]),
        ("n=64 regressed", ["test_within[64]", "test_itforward"]),
        ("zebra", []),
    ):
        shown.page.keyboard.press("/")
        shown.page.keyboard.type(typed)
        assert shown.names == found
        assert shown.page.get_by_role("status").inner_text() == f"{len(found)} of 4 rows"
        assert shown.page.get_by_text("Nothing matches.").is_visible() == (not found)
        search = shown.page.get_by_role("searchbox")
        search.fill("")
        assert len(shown.names) == 4
        search.blur()


def test_an_outcome_is_picked_and_let_go(show: Show) -> None:
    shown = show(*ROWS)
    chip = shown.page.locator(".chip.within")
    chip.click()
    assert (shown.names, chip.get_attribute("aria-pressed")) == (["test_within[64]"], "true")
    chip.click()
    assert (len(shown.names), chip.get_attribute("aria-pressed")) == (4, "false")


def test_the_first_failure_is_open_and_only_one_row_is(show: Show) -> None:
    shown = show(*ROWS)
    details = shown.page.locator("tr.more")
    assert OVER.reason in details.inner_text()
    shown.row("test_skipped").click()
    assert details.count() == 1
    assert shown.row("test_skipped").locator(".opener").get_attribute("aria-expanded") == "true"
    shown.page.keyboard.press("Escape")
    assert details.count() == 0


def test_arrows_go_from_row_to_row(show: Show) -> None:
    shown = show(WITHIN, NOT_ENFORCED)
    shown.page.locator(".opener").first.focus()
    shown.page.keyboard.press("ArrowDown")
    shown.page.keyboard.press("Enter")
    assert shown.row("test_within").locator(".opener").get_attribute("aria-expanded") == "true"


def test_an_address_opens_its_row(show: Show) -> None:
    first = show(*ROWS)
    first.open("test_skipped")
    fragment = first.page.evaluate("location.hash")
    again = show(*ROWS, fragment=fragment)
    assert again.row("test_skipped").locator(".opener").get_attribute("aria-expanded") == "true"


def test_the_details_have_every_number_twice(show: Show) -> None:
    text = show(*ROWS).open("test_within").inner_text()
    assert "64*N + 512\nwith N=64\n= 4.5 KiB 4,608 B" in re.sub(r"\n+", "\n", text)
    assert "peak 3.0 KiB: 1.5 KiB below it (1,536 B)" in text
    assert "baseline 2.0 KiB (2,048 B), +1.0 KiB (regressed)" in text
    assert "allocated\n4.0 KiB\n4,096 B" in re.sub(r"\n+", "\n", text)
    assert "reserved\nnot measured" in re.sub(r"\n+", "\n", text)
    assert "pytest 'tests/a.py::test_within[64]'" in text
    assert "--attnmem-explain all" in text


def test_the_details_of_a_failure_explain_it(show: Show) -> None:
    grew = "  grew      +1.0 KiB: one more float32 [256], clone at attn.py:3"
    row = replace(OVER, explanation=(grew,), budget="", baseline_bytes=79 * KIB)
    details = show(row).page.locator("tr.more")
    assert details.locator(".explanation").inner_text() == grew.strip()
    assert "baseline 79.0 KiB (80,896 B)" in details.inner_text()
    shown = show(replace(row, explanation=())).page.locator("tr.more").inner_text()
    assert "none: only the baseline" in shown


def test_what_was_held_is_listed_with_its_share(show: Show) -> None:
    details = show(*ROWS).page.locator("tr.more")
    lines = details.locator(".held tbody tr:visible")
    assert lines.count() == 8
    cells = lines.first.locator("td").all_inner_texts()
    assert cells[:3] == ["40.0 KiB", "40,960 B", "50.0"]
    assert cells[3] == "attn.py:40 in attention"
    assert cells[5:] == ["softmax", "float32"]
    details.get_by_role("button", name="Show all 12").click()
    assert lines.count() == 12


def test_equal_tensors_of_layers_are_one_line_with_their_module(show: Show) -> None:
    layers = [
        replace(OVER.held[0], module=f"blocks.{layer}.mlp", role="saved") for layer in range(3)
    ]
    weights = replace(OVER.held[1], role="parameter", module="head")
    row = replace(OVER, peak_bytes=180 * KIB, held=(*layers, weights, weights))
    details = show(row).page.locator("tr.more")
    lines = details.locator(".held tbody tr")
    saved, parameters = (line.locator("td").all_inner_texts() for line in lines.all())
    assert saved[:3] == ["3 × 40.0 KiB", "122,880 B", "66.7"]
    assert saved[-1] == "saved by blocks.*.mlp"
    assert (parameters[0], parameters[-3]) == ("60.0 KiB", "parameters: 2 tensors")
    assert "5 tensors" in details.locator(".held h3").inner_text()


def test_a_test_without_memory_says_what_it_asked_for(show: Show) -> None:
    full = replace(OVER, out_of_memory="needs 512.0 GiB more at attn.py:3")
    peak = show(full).row("test_over").locator("td").nth(4)
    assert peak.inner_text() == "out of memory\nneeds 512.0 GiB more"


@pytest.mark.parametrize(
    "window", [{"width": 1440, "height": 900}, {"width": 900, "height": 900}, PHONE]
)
def test_no_column_is_cut(show: Show, window: dict[str, int]) -> None:
    """Neither the outcome, nor the line of a tensor."""
    expected = replace(OVER, expected=True, nodeid="a.py::test_expected")
    shown = show(OVER, expected, viewport=window)
    cut = """() => [...document.querySelectorAll(".row > td, .scroll td")].filter((cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        const inside = range.getBoundingClientRect();
        const box = cell.closest(".scroll, .row").getBoundingClientRect();
        return inside.width && (inside.right > box.right + 1 || inside.left < box.left - 1);
    }).map((cell) => cell.textContent)"""
    assert shown.page.evaluate(cut) == []
    assert shown.overflow() == 0


def test_sizes_are_shown_in_the_unit_chosen(show: Show) -> None:
    shown = show(*ROWS)
    peak = shown.row("test_over").locator("td").nth(4)
    assert peak.inner_text() == "80.0 KiB"
    shown.page.get_by_label("Unit").select_option("MiB")
    assert peak.inner_text() == "0.1"
    shown.page.get_by_label("Unit").select_option("B")
    assert peak.inner_text() == "81,920"
    shown.page.get_by_label("Unit").select_option("each its own")
    assert peak.inner_text() == "80.0 KiB"


def test_what_tests_are_called_is_text(show: Show) -> None:
    names = [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(2)>',
        "</script><script>alert(3)</script>",
        "\u202egnp.\u2028</td>",
        "\udc80'; rm -rf /",
    ]
    rows = [replace(OVER, nodeid=name, region=name, reason=name, budget=name) for name in names]
    shown = show(*rows, replace(WITHIN, held=(Held(1, (), *names[:4]),)))
    said = set()
    for place in range(len(rows)):
        opener = shown.page.locator(".opener").nth(place)
        if opener.get_attribute("aria-expanded") == "false":
            opener.click()
        said.add(shown.page.locator("tr.more .reason").text_content())
    assert said == {*names}
    assert shown.page.locator("script").count() == 2
    assert shown.page.locator("img, main script").count() == 0


def test_a_name_is_quoted_for_a_shell(show: Show) -> None:
    shown = show(replace(OVER, nodeid="a.py::test['$(x)']"))
    command = r"pytest 'a.py::test['\''$(x)'\'']' --attnmem-backend=cpu"
    assert shown.page.locator(".again code").inner_text() == command


def test_light_and_dark(show: Show) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        shown = show(*ROWS, color_scheme=scheme)
        ground = "getComputedStyle(document.body).backgroundColor"
        before = shown.page.evaluate(ground)
        shown.page.get_by_role("button", name="Switch to").click()
        grounds.append((before, shown.page.evaluate(ground)))
    assert grounds[0] == (*reversed(grounds[1]),)
    assert len({*grounds[0]}) == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(show: Show, scheme: str) -> None:
    ratio, where = show(*ROWS, color_scheme=scheme).page.evaluate(CONTRAST)
    assert 4.5 <= ratio < 99, where


def test_on_a_phone_rows_are_cards_and_nothing_is_cut_off(show: Show) -> None:
    long = replace(OVER, nodeid="tests/a.py::test_" + "x" * 300, budget="N + " * 60 + "N")
    shown = show(long, *ROWS, viewport=PHONE)
    assert shown.overflow() == 0
    assert not shown.page.locator("thead").first.is_visible()
    assert shown.page.locator("tr.more").is_visible()
    shown.page.get_by_label("Sort by").select_option("test")
    assert shown.names[0] == "test_over"
    shown.open("test_within")
    assert shown.overflow() == 0


def test_a_thousand_rows(show: Show) -> None:
    rows = [replace(WITHIN, nodeid=f"a.py::test[{place:04}]") for place in range(1000)]
    shown = show(*rows)
    assert len(shown.names) < 1000
    shown.page.get_by_role("searchbox").fill("test[0777]")
    assert shown.names == ["test[0777]"]
    shown.page.get_by_role("searchbox").fill("077")
    assert len(shown.names) == 11
    shown.page.get_by_role("searchbox").fill("")
    assert shown.page.get_by_role("status").inner_text() == "1,000 rows"
    # The keyboard presses it: a pointer must scroll, which draws rows and moves the button.
    shown.page.get_by_role("button", name="Show all 1,000 rows").press("Enter")
    assert len(shown.names) == 1000


def test_a_page_that_is_printed_has_every_row(show: Show) -> None:
    rows = [replace(WITHIN, nodeid=f"a.py::test[{place}]") for place in range(300)]
    shown = show(*rows)
    shown.page.pdf()
    assert len(shown.names) == 300


def test_without_scripts_there_is_a_table(show: Show) -> None:
    shown = show(*ROWS, java_script_enabled=False)
    assert shown.page.locator("noscript").first.is_visible()
    assert "test_over" in shown.page.locator("body").inner_text()

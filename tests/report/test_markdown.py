"""The Markdown: its verdict, its table, its folded parts, and its limit of bytes."""

import html
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.report.markdown import LIMIT, bounded, code, render, verdict
from pytest_attnmem.report.record import Record
from pytest_attnmem.report.summary import summarise
from pytest_attnmem.units import excerpt

from .rows import KEPT as WITHIN
from .rows import records, texts

KIB = 1024
OVER = replace(
    WITHIN,
    nodeid="b.py::test_b",
    outcome=Outcome.OVER,
    reason="peak 6.0 KiB exceeds budget 4.0 KiB (1.5x) on cpu",
    peak_bytes=6 * KIB,
    explanation=("  budget    64*N   N=64   a.py:3", "  grows     as 96*N; the budget as N"),
    held=(
        Held(4 * KIB, (16, 64), "float32", "mm", "attn.py:3", "attention"),
        Held(2 * KIB, (8, 64), "float32", "softmax", "attn.py:4", "attention"),
    ),
)
SKIPPED = Record("a.py::test_c", outcome=Outcome.NOT_ENFORCED, reason="skipped: no GPU")
MEASURED = Record("a.py::test_d", "x", peak_bytes=KIB, backend="null:H100", device="cuda:0")


def shown(*rows: Record) -> list[str]:
    return render(summarise(rows), {}).splitlines()


def test_a_comment() -> None:
    assert shown(WITHIN, SKIPPED, MEASURED, OVER) == [
        "**1 of 3 memory budgets exceeded**, 1 kept, 1 not enforced.",
        "",
        "| test | shape | backend | budget | peak | used % | outcome |",
        "|---|---|---|--:|--:|--:|---|",
        "| `b.py::test_b` | `B=1 N=64` | `cpu` | 4.0 KiB | 6.0 KiB | 150.0 | **over** |",
        "| `a.py::test_c` |  |  | - | - |  | not enforced: `skipped: no GPU` |",
        "| `a.py::test_a` | `B=1 N=64` | `cpu` | 4.0 KiB | 3.0 KiB | 75.0 | within |",
        "| `a.py::test_d [x]` |  | `null:H100` | - | 1.0 KiB |  | measured |",
        "",
        "Session peak 6.0 KiB in `b.py::test_b`.",
        "",
        "<details><summary><code>b.py::test_b</code>: <code>peak 6.0 KiB exceeds budget 4.0 KiB"
        " (1.5x) on cpu</code></summary>",
        "<pre>",
        "  budget    64*N   N=64   a.py:3",
        "  grows     as 96*N; the budget as N",
        "  held at the peak (2 tensors):",
        "    4.0 KiB  [16, 64] float32  mm       attn.py:3  in attention",
        "    2.0 KiB  [8, 64] float32   softmax  attn.py:4  in attention",
        "</pre>",
        "</details>",
    ]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([OVER], "**1 of 1 memory budget exceeded**, 0 kept, 0 not enforced."),
        ([WITHIN, SKIPPED], "**1 of 2 memory budgets kept**, 1 not enforced."),
        ([SKIPPED], "**0 of 1 memory budget kept**, 1 not enforced."),
        ([WITHIN], "**1 memory budget kept.**"),
        ([WITHIN, replace(WITHIN, nodeid="b")], "**2 memory budgets kept.**"),
        ([MEASURED], "No memory budget was held."),
        ([], "No memory budget was held."),
    ],
)
def test_the_first_line_is_the_verdict(rows: list[Record], line: str) -> None:
    assert verdict(summarise(rows)) == line
    assert shown(*rows)[0] == line


def test_a_contract_is_in_the_place_of_a_limit_and_a_baseline_is_folded() -> None:
    lines = shown(replace(OVER, budget="O(N*d)", limit_bytes=None))
    assert "| `O(N*d)` | 6.0 KiB |  | **over** |" in lines[4]
    grew = "  grew      +3.0 KiB: one more float32 [12, 64], clone at attn.py:3"
    lines = shown(replace(OVER, budget="", explanation=(grew,), baseline_bytes=3 * KIB))
    folded = [grew, "  baseline  3.0 KiB", "  held at the peak (2 tensors):"]
    assert lines[lines.index("<pre>") + 1 :][:3] == folded


def test_the_change_from_a_baseline_is_a_column_only_where_there_is_one() -> None:
    assert "baseline" not in shown(WITHIN)[2]
    lines = shown(WITHIN, replace(OVER, baseline_bytes=4 * KIB))
    assert lines[2].endswith("| used % | Δ baseline | outcome |")
    assert lines[3] == "|---|---|---|--:|--:|--:|--:|---|"
    assert lines[4].endswith("| 150.0 | +2.0 KiB | **over** |")
    assert lines[5].endswith("| 75.0 |  | within |")


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("a b", "`a b`"),
        ("a|b", "`a\\|b`"),
        ("a\\|b", "`a\\\\|b`"),
        ("a`b", "``a`b``"),
        ("a``b`c", "```a``b`c```"),
        ("`a", "`` `a ``"),
        ("a`", "`` a` ``"),
        (" a", "`  a `"),
        ("a\nb", "`a\\nb`"),
        ("<b>&@you", "`<b>&@you`"),
        ("\ud800\u202e", "`\\ud800\\u202e`"),
        ("", ""),
        (" ", ""),
        ("abcdefghijklmn", "`abcde…klmn`"),
    ],
)
def test_any_text_is_code_on_one_line(text: str, span: str) -> None:
    assert code(text, 10) == span


class Cells(HTMLParser):
    """Collects the text in the cells of a table, and all elements."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.elements: set[str] = set()
        self.inside = False

    def handle_starttag(self, tag: str, attributes: object) -> None:
        self.elements.add(tag)
        if tag == "td":
            self.cells.append("")
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "td"

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.cells[-1] += data


NAMES = texts | st.sampled_from(["<script>alert(1)</script>", "a|b\\|c`d", "@user #1 **x** _y_"])


@settings(deadline=None)  # the machine may be busy
@given(NAMES.filter(str.strip), NAMES)
def test_what_a_name_says_is_read_and_never_obeyed(name: str, reason: str) -> None:
    markdown = pytest.importorskip("markdown_it")
    parser = markdown.MarkdownIt("commonmark", {"html": True}).enable("table")
    rows = [
        replace(OVER, nodeid=name, reason=reason),
        replace(SKIPPED, nodeid=name, reason=reason),
    ]
    page = Cells()
    page.feed(parser.render(render(summarise(rows), {})))
    tables = {"table", "thead", "tbody", "tr", "th", "td"}
    assert page.elements == tables | {"p", "strong", "code", "details", "summary", "pre"}
    assert len(page.cells) == 14
    assert page.cells[0] == page.cells[7] == excerpt(name)
    assert page.cells[13].removeprefix("not enforced") == (
        f": {excerpt(reason)}" * bool(reason.strip(" "))
    )


def test_what_is_folded_is_escaped() -> None:
    mean = "</pre></details><script>@you"
    hostile = replace(OVER, nodeid=mean, reason=mean, budget=mean, explanation=(mean,))
    _, folded = render(summarise([hostile]), {}).split("<details>")
    assert folded.count(html.escape(mean)) == 3
    assert "<script>" not in folded


def many(count: int, **changes: Any) -> list[Record]:
    return [
        replace(row, nodeid=f"{row.nodeid}[{number:05}]", **changes)
        for row in (OVER, SKIPPED, WITHIN, MEASURED)
        for number in range(count)
    ]


@pytest.mark.parametrize("limit", [LIMIT, 10_000, 2_000])
@pytest.mark.parametrize("name", ["{}", "é|`\U0001f600" * 30 + "{}"], ids=["short", "long"])
def test_there_is_never_more_than_the_limit_and_what_is_left_out_is_counted(
    limit: int, name: str
) -> None:
    rows = [replace(row, nodeid=name.format(row.nodeid)) for row in many(300)]
    text = bounded(summarise(rows), limit)
    assert limit / 3 < len(text.encode()) <= limit
    lines = text.splitlines()
    table = [line for line in lines if line.startswith("| ")][1:]
    (left,) = (line for line in lines if line.endswith("measured."))
    number, _, counts = left.partition(" more rows left out: ")
    counted = {part.partition(" ")[2]: int(part.split()[0]) for part in counts[:-1].split(", ")}
    assert len(table) + int(number) == len(rows)
    assert sum(counted.values()) == int(number)
    assert counted["measured"] == 300
    folded = sum(line.startswith("<details>") for line in lines)
    assert f"The tensors of {300 - folded} more tests are left out." in lines
    assert len(text.split("</details>")) - 1 == folded


def test_failures_are_left_out_last_and_without_room_for_the_verdict_there_is_nothing() -> None:
    text = bounded(summarise(many(40)), 12_000)
    assert [text.count(f"| {word}") for word in ("**over**", "measured |")] == [40, 0]
    assert bounded(summarise([OVER]), 60) == ""
    assert bounded(summarise([]), 27) == "No memory budget was held.\n"


@settings(deadline=None)  # the machine may be busy
@given(st.lists(records, max_size=4), st.integers(0, 3000))
def test_any_rows_keep_to_the_limit(rows: list[Record], limit: int) -> None:
    assert len(bounded(summarise(rows), limit).encode("utf-8", "backslashreplace")) <= limit

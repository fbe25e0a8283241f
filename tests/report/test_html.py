"""The page as text: it is one file, and texts of tests are only data in it."""

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.history import page as history_page
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.timeline import Allocation, Timeline
from pytest_attnmem.report.html import LISTED, SCRIPTS, STYLES, render, verdict
from pytest_attnmem.report.record import Record
from pytest_attnmem.report.summary import summarise

from .rows import KEPT, records, texts

WITHIN, OVER, NOT_ENFORCED = Outcome.WITHIN, Outcome.OVER, Outcome.NOT_ENFORCED
SCORES = Held(512, (1, 8, 8), "float32", "softmax", "attn.py:31", "attention", dims=("1", "N", "N"))
SCRATCH = Held.of_scratch(64, "bmm", "attn.py:30")
ROW = replace(
    KEPT,
    shape={"B": 1, "N": 8, "M": 8},
    budget="16*N*N",
    limit_bytes=1024,
    peak_bytes=576,
    held=(SCORES, SCRATCH),
    timeline=Timeline(
        3, (Allocation(SCRATCH, 0, 2), Allocation(SCORES, 1, None)), "the second run"
    ),
)
HOSTILE = (
    "a.py::test[<script>alert(1)</script>]",
    'a.py::test["><img src=x onerror=alert(1)>]',
    "a.py::test[</noscript></td><b>]",
    "a.py::test[<!--<script>]",
    "a.py::test[\u2028\u2029\x00\x1b&lt;&amp;]",
    "a.py::test[\ud800]",
    "$title ${data}",
)


class Tags(HTMLParser):
    """The elements of a page with their attributes, and the text of scripts and styles."""

    CDATA_CONTENT_ELEMENTS = ("script", "style")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.raw: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] in self.CDATA_CONTENT_ELEMENTS and data.strip():
            self.raw.append(data)


def page(*rows: Record, **environment: Any) -> str:
    return render(summarise(rows), environment)


def data(*rows: Record, **environment: Any) -> dict[str, Any]:
    """Returns the data that the page's script reads."""
    _, text, _ = Tags(page(*rows, **environment)).raw
    return json.loads(text)


def test_the_same_rows_are_the_same_page() -> None:
    rows = [replace(ROW, nodeid=f"a.py::test_{name}") for name in "abc"]
    assert page(*rows) == page(*reversed(rows))


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_what_a_test_is_called_adds_nothing_to_the_page(name: str) -> None:
    made = Held(8, (), name, name, name, name)
    hostile = Record(name, name, OVER, name, budget=name, held=(made,), where=name, backend=name)
    plain = replace(hostile, nodeid="a", region="a", reason="a", budget="a", backend="a")
    assert [tag for tag, _ in Tags(page(hostile)).found] == [
        tag for tag, _ in Tags(page(plain)).found
    ]
    _, text, _ = Tags(page(hostile)).raw
    assert text.isascii()
    assert not re.search("[<>&]", text)
    (row,) = json.loads(text)["rows"]
    assert (row["nodeid"], row["region"], row["reason"], row["budget"]) == (name,) * 4


def test_the_page_asks_for_nothing() -> None:
    text = page(ROW)
    assert {*re.findall(r"\w+://[^\s\"']+", text)} == {"http://www.w3.org/2000/svg"}  # a name
    linked = [
        value for _, attrs in Tags(text).found for name, value in attrs if name in ("src", "href")
    ]
    assert linked == ["#results"]
    assert not re.search(r"@import|url\(|fetch\(|XMLHttp|import\(|sendBeacon|new Worker", text)
    markup = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\("
    assert not re.search(markup, Tags(text).raw[-1])  # the script makes none of a text


def test_the_policy_lets_only_these_texts_run() -> None:
    tags = Tags(page(ROW))
    (policy,) = [
        dict(attrs)["content"]
        for tag, attrs in tags.found
        if tag == "meta" and dict(attrs).get("http-equiv") == "Content-Security-Policy"
    ]
    style, _, script = (b64encode(sha256(text.encode()).digest()).decode() for text in tags.raw)
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}';"
        " base-uri 'none'; form-action 'none'"
    )


def test_the_parts_are_those_in_the_folder_and_short() -> None:
    folder = files("pytest_attnmem") / "report" / "page"
    parts = {path.name: len(path.read_text("utf-8").splitlines()) for path in folder.iterdir()}
    named = {f"{name}.css" for name in (*STYLES, *history_page.STYLES)}
    named |= {f"{name}.js" for name in (*SCRIPTS, *history_page.SCRIPTS)}
    assert {*parts} == named | {"page.html", "history.html"}
    assert max(parts.values()) <= 300


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([OVER, WITHIN, None], "1 of 2 budgets exceeded"),
        ([OVER, WITHIN, NOT_ENFORCED], "1 of 3 budgets exceeded, 1 not enforced"),
        ([OVER], "1 of 1 budget exceeded"),
        ([NOT_ENFORCED, WITHIN], "1 of 2 budgets not enforced"),
        ([WITHIN] * 1200, "All 1,200 budgets kept"),
        ([WITHIN], "The one budget is kept"),
        ([None], "No budgets, only measurements"),
        ([], "Nothing was measured"),
    ],
    ids=["over", "both", "alone", "not enforced", "kept", "one", "measured", "none"],
)
def test_the_verdict(outcomes: list[Outcome | None], said: str) -> None:
    rows = [Record(f"test_{place}", outcome=outcome) for place, outcome in enumerate(outcomes)]
    assert verdict(summarise(rows)) == said
    assert f"<title>{said} · memory budgets</title>" in page(*rows)


def test_failures_come_first_then_what_was_not_enforced() -> None:
    rows = [
        replace(ROW, nodeid=str(place), outcome=outcome, peak_bytes=peak)
        for place, (outcome, peak) in enumerate(
            [(None, 9), (WITHIN, 9), (NOT_ENFORCED, 9), (OVER, 2048), (WITHIN, 90), (OVER, 4096)]
        )
    ]
    assert [row["nodeid"] for row in data(*rows)["rows"]] == ["5", "3", "2", "4", "1", "0"]


def test_a_row_and_its_tensors() -> None:
    found = data(ROW)
    (row,) = found["rows"]
    texts = found["texts"]
    tensors = [[size, *(texts[word] for word in words)] for size, *words in row["tensors"]]
    assert tensors == [
        [512, "[1, 8, 8]", "N·N", "float32", "softmax", "attn.py:31", "attention", ""],
        [64, "", "", "", "bmm (scratch)", "attn.py:30", "", ""],
    ]
    none = texts.index("")
    assert row["held"] == [[0, 1, none, none], [1, 1, none, none]]
    assert row["timeline"] == {
        "events": 3,
        "note": "the second run",
        "spans": [[0, 2, 1], [1, None, 0]],
    }
    assert (row["shape"], row["symbols"]) == ("B=1 N=8", [["B", 1], ["N", 8], ["M", 8]])
    assert (row["limit_bytes"], row["peak_bytes"], row["reserved_bytes"]) == (1024, 576, None)


def test_what_a_browser_would_round_is_written_out_and_a_long_list_ends_in_a_sum() -> None:
    many = tuple(replace(SCRATCH, where=f"attn.py:{line}") for line in range(LISTED + 3))
    large = replace(ROW, peak_bytes=2**53 + 1, limit_bytes=2**53 - 1, duration_s=float("inf"))
    (row,) = data(replace(large, held=many))["rows"]
    assert (len(row["held"]), row["more_held"]) == (LISTED, [3, 192])
    assert (row["peak_bytes"], row["limit_bytes"]) == ("9007199254740993", 9007199254740991)
    assert row["duration_s"] is None


def test_the_environment_is_what_is_known_of_it() -> None:
    facts = {"python": "3.12", "cuda": None, "allocator": {"backend": "native"}}
    assert data(ROW, **facts, compute_capability="9.0")["environment"] == [
        ["measured on", "cpu"],
        ["python", "3.12"],
        ["allocator", "backend native"],
        ["compute capability", "9.0"],
    ]


def test_the_head_has_the_date_the_commit_and_the_devices() -> None:
    facts = {"date": "2026-11-23T03:53:04+00:00", "commit": "0123456789abcdef", "device": "x86_64"}
    found = data(ROW, replace(ROW, backend="null:H100"), **facts, uncommitted_changes=True)
    assert found["environment"] == [
        ["date", "2026-11-23 03:53:04 UTC"],
        ["commit", "0123456789 with uncommitted changes"],
        ["measured on", "cpu, null:H100"],
        ["machine", "x86_64"],
    ]
    assert ["commit", "0123456789"] in data(ROW, **facts)["environment"]


def test_without_scripts_there_is_a_plain_table() -> None:
    row = replace(ROW, outcome=OVER, reason="peak <is> over", peak_bytes=2048)
    line = "<td>a.py::test_a</td><td>cpu</td><td>1.0 KiB</td><td>2.0 KiB</td><td>over</td>"
    assert f"<tr>{line}<td>peak &lt;is&gt; over</td></tr>" in page(row)


def test_a_peak_is_told_apart() -> None:
    found = data(replace(ROW, peak_bytes=600))
    (row,) = found["rows"]
    texts = found["texts"]
    parts = [(*sizes, texts[name], texts[growth]) for *sizes, name, growth in row["components"]]
    assert parts == [
        (512, 1, "softmax [1, N, N]", "O(N²)"),
        (64, 1, "scratch inside kernels", ""),
        (24, 0, "not attributed", ""),
    ]


sized = st.integers(-2, 4) | st.sampled_from([1024, 2**53, 2**511])
budgets = texts | st.sampled_from(["0", "4*N", "1000/N", "log2(N)", "N^M", "O(N)", "O(N*d)"])


@st.composite
def swept(draw: st.DrawFn) -> list[Record]:
    """Returns rows of a test's parameters, and a row with measurements at other sizes."""
    tried = draw(st.lists(sized, min_size=1, max_size=4, unique=True))
    peaks = draw(st.lists(sized, min_size=len(tried), max_size=len(tried)))
    grown = {"sizes": {"N": tried}, "peaks": peaks, "formula": draw(st.none() | budgets)}
    base = replace(draw(records), budget=draw(budgets), region="", metric="peak", growth=(grown,))
    bare = draw(st.booleans())
    return [
        replace(
            base,
            nodeid=f"a.py::test[{size}]",
            shape={"N": size, "M": size},
            peak_bytes=draw(sized),
            limit_bytes=draw(st.none() | sized),
            growth=() if bare else base.growth,
        )
        for size in draw(st.lists(sized, min_size=3, max_size=5, unique=True))
    ]


@given(swept())
def test_any_sizes_are_a_page(rows: list[Record]) -> None:
    assert len(data(*rows)["rows"]) == len(rows)


@given(records, records)
def test_any_rows_are_a_page(one: Record, other: Record) -> None:
    assert len(data(one, other)["rows"]) == 2

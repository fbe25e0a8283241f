"""Files of strangers: their texts stay texts in each report, on the terminal and in file names."""

import csv
import io
import json
import os
import re
from html.parser import HTMLParser

import pytest

from pytest_attnmem.baselines.entries import Entry, Key
from pytest_attnmem.baselines.file import update
from pytest_attnmem.cli import main
from pytest_attnmem.errors import AttnMemError

EVIL = '`"><script>alert(1)</script><img src=x onerror=alert(1)>\x1b]0;title\x07\x1b[31m'
TEXT = {
    "nodeid": f"../../{EVIL}.py::test_{EVIL}",
    "region": EVIL,
    "reason": EVIL,
    "backend": f"cpu{EVIL}",
    "device": EVIL,
    "budget": EVIL,
    "where": f"{EVIL}:1",
}
ROW = {
    **TEXT,
    "outcome": "over",
    "metric": "peak",
    "shape": {EVIL: 4},
    "limit_bytes": 8,
    "peak_bytes": 1 << 20,
    "held": [{"bytes": 1 << 20, "shape": [4], "dtype": EVIL, "op": EVIL, "where": EVIL}],
}
FORMULA = {**ROW, "nodeid": "=cmd|' /C calc'!A0::test"}


@pytest.fixture
def hostile(tmp_path):
    path = tmp_path / "hostile.json"
    environment = dict.fromkeys(("python", "torch", "device", "platform"), EVIL)
    data = {"schema": 1, "environment": environment, "results": [ROW, FORMULA]}
    path.write_text(json.dumps(data))
    return path


class Elements(HTMLParser):
    """The names of all elements, and of their attributes."""

    def __init__(self, page):
        super().__init__()
        self.names, self.attributes = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes += [name for name, _ in attrs]


def plain(tmp_path):
    path = tmp_path / "plain.json"
    rows = [{**ROW, **dict.fromkeys(TEXT, "x"), "nodeid": "a.py::b", "shape": {"N": 4}}]
    path.write_text(json.dumps({"schema": 1, "environment": {}, "results": rows}))
    return path


def test_a_page_has_no_element_of_a_test_s_name(hostile, tmp_path):
    pages = []
    for path in (plain(tmp_path), hostile):
        assert main(["report", str(path), "--html", str(tmp_path / "page.html")]) == 0
        pages.append((tmp_path / "page.html").read_text("utf-8"))
    ours, theirs = map(Elements, pages)
    assert theirs.names.count("script") == ours.names.count("script")
    assert {*theirs.names} <= {*ours.names}
    assert "onerror" not in theirs.attributes
    assert "<script>alert" not in pages[1]


def test_markdown_has_no_element_of_a_test_s_name(hostile, tmp_path):
    assert main(["report", str(hostile), "--markdown", str(tmp_path / "page.md")]) == 0
    page = (tmp_path / "page.md").read_text("utf-8")
    assert "alert" in page
    outside_of_code = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", page)
    assert not re.search("<(script|img)", outside_of_code)


def test_a_table_of_values_is_no_formula(hostile, tmp_path):
    assert main(["report", str(hostile), "--csv", str(tmp_path / "rows.csv")]) == 0
    text = (tmp_path / "rows.csv").read_text("utf-8")
    cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@", "\t", "\r"))]


@pytest.mark.parametrize(
    "command",
    [
        ["report", "{hostile}"],
        ["compare", "{hostile}", "{hostile}"],
        ["merge", "{hostile}", "-o", "{folder}/merged.json"],
    ],
    ids=lambda command: command[0],
)
def test_the_terminal_gets_no_control_characters(hostile, tmp_path, capsysbinary, command):
    names = {"hostile": hostile, "plain": plain(tmp_path), "folder": tmp_path}
    assert main([word.format(**names) for word in command]) in (0, 1, 2)
    output = capsysbinary.readouterr()
    printed = (output.out + output.err).decode("utf-8")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\x9b]", printed)
    assert {*os.listdir(tmp_path)} <= {"hostile.json", "plain.json", "merged.json"}


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    lock = tmp_path / ".b.json.lock"
    lock.symlink_to(victim)
    key = Key("t.py::a", "", "peak", "cpu")
    with pytest.raises(AttnMemError) as error:
        update(tmp_path / "b.json", lambda entries: {**entries, key: Entry(1)})
    assert str(error.value) == f"{lock} is a link, which a lock is not; delete it"
    assert victim.read_text() == "precious"
    assert not (tmp_path / "b.json").exists()

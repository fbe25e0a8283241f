"""The README shows the true behaviour, and every link of a page leads somewhere."""

import re
import shlex
from html import unescape

import pytest

from pytest_attnmem.cli import main

from .page_walk import ROOT, missing

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def cells(lines):
    """The rows of a table as the report prints it, without the column that is empty."""
    rows = [re.split(r" {2,}", line.strip()) for line in lines if line]
    return [[cell for cell in row if cell != "Δ baseline"] for row in rows]


@pytest.fixture
def suite(pytester):
    pytester.makepyfile(attn=blocks("python")[0])
    pytester.syspathinsert()
    return pytester


def test_the_first_test_fails_as_the_picture_shows(suite):
    suite.makepyfile(test_attn=blocks("python")[1])
    result = suite.runpytest("test_attn.py", "--attnmem-backend=cpu")
    picture = (ROOT / "docs" / "images" / "failure.svg").read_text(encoding="utf-8")
    command, _, *shown = map(unescape, re.findall(r"<text [^>]*>([^<]*)</text>", picture))
    assert command == "$ pytest test_attn.py"
    assert len(shown) == 7
    result.stdout.fnmatch_lines([line.replace("[", "[[]") for line in shown])
    result.assert_outcomes(failed=1)


def test_the_first_screen_is_one():
    assert blocks("python")[0].count("\n") == 7
    assert blocks("python")[1].count("\n") == 6
    assert README[: README.index("failure.svg")].count("\n") < 30


def test_the_same_test_passes_with_tiles_as_shown(suite):
    (module,) = re.findall(r"`from\s+(pytest_attnmem\S*)\s+import attention`", README)
    suite.makepyfile(attn=f"from {module} import attention", test_attn=blocks("python")[1])
    command, *lines = blocks("console")[0].splitlines()
    result = suite.runpytest(*command.split()[2:])
    result.assert_outcomes(passed=1)
    printed, shown = cells(result.outlines), cells(lines)
    dashes = shown.pop(1)
    assert [row for row in printed if row in shown] == shown
    assert any(row[: len(dashes) - 1] == dashes[:-1] for row in printed)


def test_the_closed_form_is_as_shown(suite, capsys):
    (shown,) = (block for block in blocks("console") if "derive" in block)
    command, *lines = shown.splitlines()
    capsys.readouterr()
    assert main(shlex.split(command)[2:]) == 0
    assert not missing(lines, [line.rstrip() for line in capsys.readouterr().out.splitlines()])


def test_it_is_narrow_and_short():
    lines = README.splitlines()
    assert max(map(len, lines)) <= 120
    assert len(lines) <= 120


def anchors(path):
    """The names of a page's headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    page = path.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", page):
        assert (path.parent / target).exists(), target
        assert not anchor or anchor in anchors(path.parent / target if target else path), anchor


def test_contributing_is_short():
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) <= 120

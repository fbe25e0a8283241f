"""The documentation is short enough to be read, and each reader finds a way in."""

import re

import yaml

from .page_walk import ROOT

DOCS = ROOT / "docs"
#: Where to look something up, and what was measured: nobody reads these from end to end.
LOOKED_UP = ("reference", "evidence")
#: Code and output count as words too.
MOST_WORDS = 5000
MOST_WORDS_OF_A_HOW_TO = 400


def pages():
    """The pages that are read."""
    found = [ROOT / "README.md", *DOCS.rglob("*.md")]
    return {
        path.relative_to(ROOT).as_posix(): len(path.read_text("utf-8").split())
        for path in sorted(found)
        if path.relative_to(ROOT).parts[1:2] not in [(name,) for name in LOOKED_UP]
    }


def test_all_of_it_can_be_read():
    assert sum(pages().values()) <= MOST_WORDS, pages()


def test_there_are_six_how_tos_of_a_page():
    words = {path: count for path, count in pages().items() if "/how-to/" in path}
    assert len(words) == 6
    assert max(words.values()) <= MOST_WORDS_OF_A_HOW_TO, words


def test_the_site_has_each_page_in_its_section():
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    sections = {name: page for one in settings["nav"] for name, page in one.items()}
    assert [*sections] == [
        *("Start", "Tutorial", "Reading a failure", "How-to", "Reference", "Evidence")
    ]
    listed = re.findall(r"[\w-]+(?:/[\w-]+)?\.md", yaml.safe_dump(sections))
    assert sorted(listed) == sorted(
        path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")
    )

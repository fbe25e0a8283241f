"""Each page does what it shows, block by block; ``page_walk`` says how a block is run."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from page_walk import ROOT, Walk, blocks
from prepared import PREPARED

DOCS = ROOT / "docs"
#: The pages with tests of their own, some on the null device.
OTHERS = {
    *("how-to/ci.md", "reference/kernels.md"),
    *(f"evidence/{name}.md" for name in ("accuracy", "case-studies", "documents", "ranks")),
}


#: The page with an example of each failure is the longest.
PAGES = [
    pytest.param(path, marks=[pytest.mark.thorough] * (path.name == "failures.md"))
    for path in sorted(DOCS.rglob("*.md"))
    if path.relative_to(DOCS).as_posix() not in OTHERS and blocks(path)
]

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith("2.13"), reason="pages show torch 2.13"
)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_a_page_does_what_it_shows(path, pytester, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.path / "cache"))
    PREPARED.get(path.relative_to(DOCS).as_posix(), lambda folder: None)(pytester.path)
    assert Walk(pytester, capsys).run(path)


def test_a_wrong_line_is_found(tmp_path, pytester, capsys):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ attnmem derive nothing:at_all\nthis is not printed\n```\n")
    with pytest.raises(AssertionError, match="this is not printed"):
        Walk(pytester, capsys).run(page)
    page.write_text("```python\n>>> 1 + 1\n3\n\n```\n")
    with pytest.raises(AssertionError, match="Expected:"):
        Walk(pytester, capsys).run(page)
    page.write_text("```rust\n```\n")
    with pytest.raises(AssertionError, match="nothing runs this block"):
        Walk(pytester, capsys).run(page)

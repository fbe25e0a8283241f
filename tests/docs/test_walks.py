"""Each page does what it shows, block by block; ``page_walk`` says how a block is run."""

import pytest
import torch

from ..commits.repositories import Step, git, repository
from .page_walk import ROOT, Walk, blocks

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


ATTENTION = '''import torch


def attention(q, k, v, causal):
    """Returns attention of q to k and v; queries of a causal call do not see later keys."""
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores{fill}(mask, float("-inf"))
    return scores.softmax(-1) @ v
'''
GOOD = ATTENTION.replace("{fill}", ".masked_fill_")
BAD = ATTENTION.replace("scores{fill}", "all_scores, scores = scores, scores.masked_fill")
TEST = """import pytest
from attn import attention


@pytest.mark.memory_budget
@pytest.mark.parametrize("N", [1024])
def test_peak(qkv, N):
    attention(*qkv(B=2, H=4, N=N, d=64), causal=True)


@pytest.mark.memory_budget
@pytest.mark.parametrize("N", [1024])
def test_without_a_mask(qkv, N):
    attention(*qkv(B=2, H=4, N=N, d=64), causal=False)
"""


def history(folder):
    first = {"attn.py": GOOD, "tests/test_memory.py": TEST, "conftest.py": ""}
    steps = [
        Step(first, title="Release 1.2"),
        *(Step({"notes.txt": str(number)}, title=f"Take note {number}") for number in range(90)),
        Step({"attn.py": BAD}, author="Grace", title="Keep the scores that the caller sees"),
        *(Step({"notes.txt": str(number)}, title=f"Take note {number}") for number in range(36)),
    ]
    repository(folder, steps)
    git(folder, "tag", "v1.2", "main~127")


#: What a page's reader has before its first command: a repository.
PREPARED = {"how-to/history.md": history}


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

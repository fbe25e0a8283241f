"""What a page's reader has before its first command: files, or a repository."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.commits.repositories import Step, git, repository

ATTENTION = '''import torch


def attention(q, k, v, causal):
    """Returns attention of q to k and v; queries of a causal call do not see later keys."""
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores{fill}(mask, float("-inf"))
    return scores.softmax(-1) @ v
'''
GOOD: Final = ATTENTION.replace("{fill}", ".masked_fill_")
BAD: Final = ATTENTION.replace("scores{fill}", "all_scores, scores = scores, scores.masked_fill")
TEST: Final = """import pytest
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


def _history(folder: Path) -> None:
    first = {"attn.py": GOOD, "tests/test_memory.py": TEST, "conftest.py": ""}
    steps = [
        Step(first, title="Release 1.2"),
        *(Step({"notes.txt": str(number)}, title=f"Take note {number}") for number in range(90)),
        Step({"attn.py": BAD}, author="Grace", title="Keep the scores that the caller sees"),
        *(Step({"notes.txt": str(number)}, title=f"Take note {number}") for number in range(36)),
    ]
    repository(folder, steps)
    git(folder, "tag", "v1.2", "main~127")


PREPARED: Final[Mapping[str, Callable[[Path], None]]] = MappingProxyType(
    {"how-to/history.md": _history}
)

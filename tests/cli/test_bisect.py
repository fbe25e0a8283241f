"""``attnmem bisect``, with real sessions of pytest on a simulated device."""

import pytest

from pytest_attnmem.cli import main

from ..commits.repositories import Step, commits, git, repository

ATTENTION = """
import torch

def attention(q, k, v, mask):
    scores = q @ k.transpose(-2, -1)
    {step}
    return scores.softmax(-1) @ v
"""
GOOD = ATTENTION.format(step='scores.masked_fill_(mask, float("-inf"))')
BAD = ATTENTION.format(step='kept = scores; scores = scores.masked_fill(mask, float("-inf"))')
ON_H100 = "[pytest]\nattnmem_backend = simulated:H100\n"
TEST = """
import pytest, torch
from attn import attention

@pytest.mark.memory_budget({limit})
@pytest.mark.parametrize("N", [256])
def test_attention(qkv, N):
    q, k, v = qkv(B=2, H=4, N=N, d=32, device="cuda")
    attention(q, k, v, torch.ones(N, N, dtype=torch.bool, device="cuda"))
"""


def test_the_commit_its_author_test_term_and_line_are_named(tmp_path, monkeypatch, capsys):
    steps = [
        Step({"attn.py": GOOD, "tests/conftest.py": "import sys; sys.path.insert(0, '.')"}),
        Step({"attn.py": "import nowhere"}),
        Step({"attn.py": GOOD + "# edited\n"}),
        Step({"attn.py": BAD}, author="Grace"),
        Step({"attn.py": BAD + "# edited\n"}),
        Step({"attn.py": BAD, "tests/test_a.py": TEST.format(limit=""), "pytest.ini": ON_H100}),
    ]
    folder = repository(tmp_path / "r", steps)
    folder.joinpath("attn.py").write_text("mine", "utf-8")
    monkeypatch.chdir(folder)
    known = commits(folder)
    assert main(["bisect", "--tests-from", "bad", "HEAD~5..", "--", "tests/test_a.py"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"{known[3]} is the first bad commit, measured on simulated:H100",
        "  author  Grace",
        "  date    2023-11-15",
        "  title   3",
        "",
        "tests/test_a.py::test_attention[256]",
        "  4.3 MiB → 6.3 MiB (+2,097,152 B) on simulated:H100",
        "  +32*N^2: one more float32 [B, H, N, N], masked_fill at attn.py:6",
        "  at the peak:",
        "    +2.0 MiB  [B, H, N, N] float32 masked_fill  attn.py:6 in attention  ← B·H·N·N",
        "",
        "measured 4 commits; bad: tests/test_a.py::test_attention[256] needs more than at the good"
        " end",
        "1 file has changes that are in no commit, which were not measured",
    ]
    assert all(line.startswith(("measured ", "comparing ")) for line in err.splitlines())
    assert git(folder, "worktree", "list").count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["HEAD..", "--tolerance", "x"], "cannot read --tolerance 'x'; write"),
        (["HEAD~1..", "--backend", "cudda"], "unknown backend 'cudda'"),
        (
            ["HEAD~1..", "--", "t.py", "--attnmem-backend", "cpu"],
            "--attnmem-backend cpu after --: all commits are measured with one backend; write"
            " --backend cpu before --",
        ),
        (["HEAD~1..", "--timeout", "0"], "--timeout: expected more than 0 seconds, got 0"),
    ],
)
def test_a_wrong_command_is_one_line(tmp_path, monkeypatch, refusal, arguments, message):
    monkeypatch.chdir(repository(tmp_path / "r", [Step(), Step()]))
    assert refusal("bisect", *arguments).startswith(message)

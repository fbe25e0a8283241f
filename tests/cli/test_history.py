"""``attnmem history``: a program on a simulated device, its files, and wrong commands."""

import json
from dataclasses import replace

import pytest

from pytest_attnmem.cli import main

from ..commits.repositories import Step, commits, repository
from .sessions import ROW, write

PROGRAM = """
import pytest, torch

@pytest.mark.parametrize("N", [128])
def plain(N):
    from attn import attention
    attention(torch.ones(2, N, 32, device="cuda"))

def masked():
    from attn import masked
    masked()
"""
GOOD = "def attention(q):\n    return q @ q.transpose(-2, -1)\n"
BAD = "KEPT = []\n" + GOOD.replace("return ", "scores = ") + "    KEPT.append(scores.exp())\n"
MATRIX = 2 * 128 * 128 * 4


@pytest.fixture
def folder(tmp_path, monkeypatch):
    steps = [
        Step({"README.md": "x"}),
        Step({"attn.py": GOOD}),
        Step({"README.md": "y"}),
        Step({"attn.py": BAD}, author="Grace", title="Keep the scores"),
        Step({"attn.py": BAD + "import torch\ndef masked(): torch.ones(9, device='cuda')\n"}),
    ]
    made = repository(tmp_path / "net", steps)
    tmp_path.joinpath("bench.py").write_text(PROGRAM, "utf-8")
    monkeypatch.chdir(made)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return made


def test_the_functions_of_a_program_are_rows_at_every_commit_of_the_code(folder, tmp_path, capsys):
    words = ["--program", "../bench.py", "--paths", "attn.py", "--fail-on", "10%"]
    outputs = [f"--{kind}={tmp_path}/h.{kind}" for kind in ("json", "markdown")]
    assert main(["history", *words, *outputs, "--html=h.html"]) == 1
    out, err = capsys.readouterr()
    known = commits(folder)
    lines = out.splitlines()
    assert lines[0].startswith("net: 3 of 3 commits measured; simulated:A100-80GB, torch ")
    assert lines[7:14] == [
        f"{known[3][:10]} 2023-11-15 Grace: Keep the scores",
        "  plain[128]  160.0 KiB → 288.0 KiB (+131,072 B, +80.0 %); still there",
        "    +8*N^2: one more float32 [2, N, N], exp at attn.py:4  held by attn.KEPT[1]",
        "",
        "gaps:",
        "  2 × masked: ImportError: cannot import name 'masked' from 'attn' (attn.py)",
    ]
    data = json.loads(tmp_path.joinpath("h.json").read_text("utf-8"))
    assert [point["sha"] for point in data["points"]] == [known[n] for n in (1, 3, 4)]
    assert [step["after"] - step["before"] for step in data["steps"]] == [MATRIX]
    assert "Keep the scores" in folder.joinpath("h.html").read_text("utf-8")
    assert "**1 row" not in tmp_path.joinpath("h.markdown").read_text("utf-8")
    assert main(["history", *words, "--html=h.html"]) == 1  # its own page is no change
    assert "in no commit" not in out + capsys.readouterr().out
    assert all(line.startswith(("measured ", "confirming ")) for line in err.splitlines())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [],
            "expected tests after --, as in -- tests/test_memory.py, or --program FILE;"
            " --tests-from each runs all tests of each commit",
        ),
        (["nothing", "--program", "../bench.py"], "there is no commit 'nothing' in "),
        (["--every", "0", "--", "a.py"], "--every: expected a number above 0, got 0"),
        (["--jobs", "-1", "--", "a.py"], "--jobs: expected a number above 0, got -1"),
        (["--shard", "3/2", "--program", "../bench.py"], "--shard: expected a part such as 2/8"),
        (["--paths", "x.py", "--program", "../bench.py"], "HEAD: no commit changes the code there"),
        (["--paths", "../..", "--program", "../bench.py"], "--paths ../..: it is outside of "),
        (["--backend", "cudda", "--", "a.py"], "unknown backend 'cudda'"),
        (
            ["--", "a.py", "--attnmem-backend=cpu"],
            "--attnmem-backend cpu after --: all commits are measured with one backend; write"
            " --backend cpu before --",
        ),
        (["--html", "/nowhere/h.html", "--", "a.py"], "--html: there is no directory /nowhere"),
        (["--fail-on", "x", "--", "a.py"], "cannot read --fail-on 'x'"),
    ],
)  # fmt: skip
def test_a_wrong_command_is_one_line(folder, refusal, arguments, message):
    assert refusal("history", *arguments).startswith(message)


def test_a_history_is_shown_again_and_a_session_added_as_head(folder, tmp_path, capsys, refusal):
    kept, session = tmp_path / "kept.json", tmp_path / "session.json"
    write(session, replace(ROW, peak_bytes=1024))
    assert main(["history", "--add", str(session), "--json", str(kept)]) == 0
    assert "net: 1 of 1 commits measured" in capsys.readouterr().out
    write(session, replace(ROW, peak_bytes=2048))
    assert main(["history", "--from", str(kept), "--add", str(session), "--json", str(kept)]) == 0
    again = json.loads(kept.read_text("utf-8"))
    assert [[*point["measured"]["values"].values()] for point in again["points"]] == [[2048]]
    assert [point["sha"] for point in again["points"]] == [commits(folder)[-1]]
    capsys.readouterr()
    assert main(["history", "--from", str(kept), "--markdown", "-"]) == 0
    assert capsys.readouterr().out.startswith("net: 1 of 1 commits measured")
    other = refusal("history", "--from", str(session))
    assert other == f"--from: {session} is not the JSON of a history"

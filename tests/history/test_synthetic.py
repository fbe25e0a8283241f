"""Every kind of commit once, really measured: each step is found, and none is invented."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_attnmem.cli import main

from ..commits.repositories import commits, git
from .synthetic import alone, found_steps, synthetic

pytestmark = pytest.mark.thorough
ROOT = Path(__file__).parents[2]
WORDS = ["--backend", "cpu", "--json"]
TESTS = ["--", "tests/test_net.py"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Returns the folder, its repository, the expected steps, and the history's JSON."""
    folder = tmp_path_factory.mktemp("synthetic")
    made, expected = synthetic(folder / "r")
    temporary = folder / "temporary"
    temporary.mkdir()  # its ini file is above the files of each commit, and not of the project
    temporary.joinpath("pytest.ini").write_text("[pytest]\naddopts = --of-another-project\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(temporary))
        patch.chdir(made)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        assert main(["history", *WORDS, str(folder / "history.json"), *TESTS]) == 0
    return folder, made, expected, json.loads(folder.joinpath("history.json").read_text("utf-8"))


def test_every_step_is_found_and_none_is_invented(made):
    _, repository, expected, data = made
    known = commits(repository)
    assert sorted(found_steps(data, known)) == sorted(expected)
    for step in data["steps"]:
        assert (step["cause"]["before"], step["cause"]["after"]) == (step["before"], step["after"])
        assert step["cause"]["tensors"][0]["text"].endswith("zeros  model.py:8 in zeros")


def test_a_commit_that_cannot_be_measured_is_a_gap_with_its_reason(made):
    _, repository, _, data = made
    known = commits(repository)
    gaps = {point["sha"]: point["measured"]["gaps"] for point in data["points"]}
    assert gaps[known[0]] == {"": "ModuleNotFoundError: No module named 'net'"}
    assert gaps[known[4]] == {"": "SyntaxError: invalid syntax"}
    assert [sha for sha, gap in gaps.items() if gap] == [known[0], known[4]]
    [after] = [step for step in data["steps"] if step["gaps"]]
    assert (after["gaps"], after["sha"]) == ([known[4]], known[5])


def test_a_growth_has_the_commit_that_undid_it(made):
    _, repository, _, data = made
    known = commits(repository)
    ends = {step["sha"]: step["ended_by"] for step in data["steps"] if "small" in step["row"]}
    assert ends[known[2]] == known[3]
    assert [step["ended_by"] for step in data["steps"] if "large" in step["row"]] == [""] * 4


def test_a_commit_alone_in_a_new_environment_has_the_same_bytes(made):
    _, repository, _, data = made
    newest = data["points"][-1]
    assert alone(repository, newest["sha"], "cpu") == newest["measured"]["values"]


def test_the_next_run_measures_new_commits_alone(made, monkeypatch):
    folder, repository, _, data = made
    [kept] = folder.glob("cache/pytest-attnmem/history/*.jsonl")
    before = kept.read_text("utf-8")
    monkeypatch.chdir(repository)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setattr("pytest_attnmem.history.measurer.warm_process", None)  # nothing is started
    assert main(["history", *WORDS, str(folder / "again.json"), *TESTS]) == 0
    assert json.loads(folder.joinpath("again.json").read_text("utf-8")) == data
    assert kept.read_text("utf-8") == before


def test_shards_are_merged_to_the_same_history(made, monkeypatch, capsys):
    folder, repository, _, data = made
    monkeypatch.chdir(repository)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    parts = [str(folder / f"{part}.json") for part in (1, 2, 3)]
    for part, path in enumerate(parts, 1):
        main(["history", *WORDS, path, "--shard", f"{part}/3", *TESTS])
    whole = folder / "merged.json"
    assert main(["merge", *parts[::-1], "-o", str(whole)]) == 0
    where = f"cpu, torch {data['facts']['torch']}, tests/test_net.py"
    assert capsys.readouterr().out.endswith(f"r: 21 of 23 commits measured; {where}\n")
    merged = json.loads(whole.read_text("utf-8"))
    by_sha = {point["sha"]: point for point in merged["points"]}
    assert [by_sha[point["sha"]] for point in data["points"]] == data["points"]
    key = ("sha", "row")
    assert sorted(merged["steps"], key=lambda one: [one[name] for name in key]) == sorted(
        data["steps"], key=lambda one: [one[name] for name in key]
    )


def everything(folder: Path) -> dict[str, str]:
    """Returns a digest of each file of a repository and its working tree."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGKILL"])
def test_an_interrupt_leaves_the_repository_as_it_was_and_what_is_measured(made, tmp_path, name):
    _, repository, _, data = made
    copy = tmp_path / "r"
    git(tmp_path, "clone", "-q", str(repository), str(copy))
    copy.joinpath("src/net/model.py").write_text("mine", "utf-8")
    git(copy, "-c", "user.name=a", "-c", "user.email=a@x.example", "stash")
    copy.joinpath("setup.cfg").write_text("mine", "utf-8")
    copy.joinpath(".git/hooks/post-checkout").write_text("#!/bin/sh\ntouch ran\n", "utf-8")
    copy.joinpath(".git/hooks/post-checkout").chmod(0o755)
    git(copy, "add", "setup.cfg")
    before = everything(copy)
    words = ["history", *WORDS, str(tmp_path / "h.json"), *TESTS]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"),
                   "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}  # fmt: skip
    running = subprocess.Popen(
        [sys.executable, "-m", "pytest_attnmem.cli", *words],
        cwd=copy,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's job ignores it
    )
    while running.poll() is None and not _kept(tmp_path):
        time.sleep(0.05)
    running.send_signal(getattr(signal, name))
    _, errors = running.communicate()
    if name == "SIGINT":
        last = "attnmem history: interrupted"
        assert (running.returncode, errors.splitlines()[-1]) == (130, last)
        assert [path.name for path in tmp_path.glob("attnmem-*")] == []
    assert everything(copy) == before
    known = len(_kept(tmp_path))
    assert 0 < known < len(data["points"])


def _kept(folder: Path) -> list[str]:
    return [
        line
        for path in folder.glob("cache/pytest-attnmem/history/*.jsonl")
        for line in path.read_text("utf-8").splitlines()
        if line
    ]

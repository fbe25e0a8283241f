"""The action: its inputs reach its scripts, and the scripts run."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from pytest_attnmem.measurement.held import Held

from ..cli.sessions import ROW, write
from ..commits.repositories import Step, commits, git, repository

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS = ACTION["runs"]["steps"]
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/memory.yml").read_text("utf-8"))
BASH = shutil.which("bash") or "bash"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="GitHub's runner has its own bash there")


def test_every_input_is_used_and_every_variable_is_given():
    text = (ROOT / "action.yml").read_text("utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])
    for step in STEPS:
        for script in re.findall(r"action/\w+\.sh", step.get("run", "")):
            source = (ROOT / ".github" / script).read_text("utf-8")
            assert set(re.findall(r"ATTNMEM_\w+", source)) <= {*step["env"]}


def test_no_input_is_written_into_a_script():
    """A branch or an input could hold shell code."""
    assert [step["run"] for step in STEPS if "${{" in step.get("run", "")] == []


def test_the_workflow_passes_its_inputs_on():
    (step,) = (one for one in WORKFLOW["jobs"]["memory"]["steps"] if "with" in one and
               "pytest-attnmem" in one["uses"])  # fmt: skip
    inputs = WORKFLOW[True]["workflow_call"]["inputs"]
    assert step["with"] == {name: f"${{{{ inputs.{name} }}}}" for name in inputs}
    for name, given in inputs.items():
        assert given["default"] == ACTION["inputs"][name]["default"]


GH = """#!/usr/bin/env bash
case "$*" in
  *--paginate*) echo "$FOUND" ;;
  *) [ -z "$REFUSED" ] || exit 1; echo "$*" >> "$CALLS" ;;
esac
"""


@pytest.mark.parametrize(
    ("found", "refused", "called", "printed"),
    [
        ("", "", "api --method POST repos/me/it/issues/7/comments -F body=@c.md --silent", ""),
        ("42", "", "api --method PATCH repos/me/it/issues/comments/42 -F body=@c.md --silent", ""),
        ("", "1", "", "::notice::The token may not comment; give the job pull-requests: write."),
    ],
    ids=["first", "again", "a fork"],
)
def test_the_comment_is_replaced(tmp_path, found, refused, called, printed):
    gh = tmp_path / "gh"
    gh.write_text(GH, "utf-8")
    gh.chmod(0o755)
    calls = tmp_path / "calls"
    calls.touch()
    given = {"GITHUB_REPOSITORY": "me/it", "ATTNMEM_PULL_REQUEST": "7", "CALLS": str(calls)}
    done = subprocess.run(
        [BASH, str(ROOT / ".github/action/comment.sh"), "c.md"],
        env={**given, "PATH": f"{tmp_path}:{os.environ['PATH']}", "FOUND": found,
             "REFUSED": refused},
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert calls.read_text("utf-8").strip() == called
    assert done.stdout.startswith(printed)


PYTEST = """#!{python}
import pathlib, sys
sys.path.insert(0, "{root}")
from pytest_attnmem.cli import main
if sys.argv[1:3] == ["-m", "pytest"]:
    words = dict(zip(sys.argv[3::1], sys.argv[4::1]))
    commit = pathlib.Path("bytes").read_text().strip()
    pathlib.Path(words["--attnmem-json"]).write_text(pathlib.Path("{rows}", commit).read_text())
    if "--attnmem-markdown" in words:
        pathlib.Path(words["--attnmem-markdown"]).write_text("**1 memory budget kept.**\\n")
    sys.exit(0)
sys.exit(main())
"""


@pytest.fixture
def measure(tmp_path):
    """Returns a function that runs the script at HEAD of a repository whose file has bytes."""
    folder = repository(tmp_path / "r", [Step({"bytes": "1"}), Step({"bytes": "2"})])
    scores = Held(1024, (16, 16), "float32", "mm", "attn.py:7", "f", dims=("N", "N"))
    mask = replace(scores, op="masked_fill", where="attn.py:14")
    rows = tmp_path / "rows"
    rows.mkdir()
    write(rows / "1", replace(ROW, held=(scores,)))
    write(rows / "2", replace(ROW, peak_bytes=2048, held=(scores, mask)))
    programs = tmp_path / "bin"
    programs.mkdir()
    fake = PYTEST.format(python=sys.executable, root=ROOT, rows=rows)
    for name, text in {"python": fake, "attnmem": fake, "uv": "#!/bin/sh\n"}.items():
        programs.joinpath(name).write_text(text, "utf-8")
        programs.joinpath(name).chmod(0o755)
    given = {
        **{"ATTNMEM_BACKEND": "cpu", "ATTNMEM_TESTS": "a.py\n\n-k it\n", "ATTNMEM_TORCH": "torch"},
        **{"ATTNMEM_INSTALL": "touch installed", "ATTNMEM_FAIL_ON": "0", "ATTNMEM_BASE": ""},
        **{"ATTNMEM_HISTORY": "", "ATTNMEM_EVENT": "push", "RUNNER_TEMP": str(tmp_path / "t")},
        **{"GITHUB_ACTION_PATH": str(ROOT), "GITHUB_OUTPUT": str(tmp_path / "output")},
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }

    def run(**changes: str) -> str:
        done = subprocess.run(
            [BASH, str(ROOT / ".github/action/measure.sh")],
            cwd=folder,
            env={**given, "PATH": f"{programs}:{os.environ['PATH']}", **changes},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return (tmp_path / "t/attnmem/comment.md").read_text("utf-8")

    return folder, run


def test_the_base_is_measured_and_the_comment_has_the_term(tmp_path, measure):
    folder, run = measure
    comment = run(ATTNMEM_BASE=commits(folder)[0])
    assert (tmp_path / "output").read_text("utf-8") == f"results={tmp_path}/t/attnmem\ncode=1\n"
    assert comment.startswith("<!-- attnmem -->\n**1 of 1 test failed the comparison**: 1 grew.\n")
    assert "**grew: `+4*N^2 masked_fill attn.py:14`**" in comment
    assert (tmp_path / "summary").read_text("utf-8") == comment
    assert folder.joinpath("installed").exists()


def test_a_branch_keeps_the_memory_of_each_commit_that_is_pushed(tmp_path, measure):
    folder, run = measure
    origin = tmp_path / "origin.git"
    git(tmp_path, "clone", "-q", "--bare", str(folder), str(origin))
    git(folder, "remote", "add", "origin", str(origin))
    git(folder, "checkout", "-q", "HEAD~1")
    assert "| ▁ " in run(ATTNMEM_HISTORY="memory")
    git(folder, "checkout", "-q", "main")
    before = git(folder, "status", "--porcelain")
    comment = run(ATTNMEM_HISTORY="memory")
    assert "<details><summary>Over commits</summary>" in comment
    assert "| ▁█ " in comment
    assert git(origin, "rev-list", "--count", "memory") == "2\n"
    kept = json.loads(git(origin, "show", "memory:history.json"))
    assert [point["sha"] for point in kept["points"]] == commits(folder)
    assert [(step["before"], step["after"]) for step in kept["steps"]] == [(1024, 2048)]
    assert "| ▁█ " in run(ATTNMEM_HISTORY="memory", ATTNMEM_EVENT="pull_request")
    assert git(origin, "rev-list", "--count", "memory") == "2\n"
    assert git(folder, "status", "--porcelain") == before

"""When and from which commit results are."""

import subprocess
from datetime import datetime, timedelta

from pytest_attnmem.report.origin import origin


def git(folder, *arguments: str) -> str:
    named = ("-c", "user.name=A", "-c", "user.email=a@x.example")
    command = ["git", "-C", str(folder), *named, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_the_commit_and_changes_to_it(tmp_path):
    git(tmp_path, "init", "-q")
    tmp_path.joinpath("a").write_text("1", "utf-8")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-qm", "1")
    tmp_path.joinpath("report.html").write_text("", "utf-8")
    found = origin(tmp_path, {"GITHUB_SHA": "other"})
    assert datetime.fromisoformat(found.pop("date")).utcoffset() == timedelta(0)
    assert found == {"commit": git(tmp_path, "rev-parse", "HEAD"), "uncommitted_changes": False}
    tmp_path.joinpath("a").write_text("2", "utf-8")
    assert origin(tmp_path, {})["uncommitted_changes"] is True


def test_a_copy_that_is_no_repository(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert origin(tmp_path, {"GITHUB_SHA": "", "CI_COMMIT_SHA": "1234"})["commit"] == "1234"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert origin(tmp_path, {})["commit"] is None

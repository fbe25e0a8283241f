"""What the repository's own modules are imported from."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from pytest_attnmem.plugin.warm_sessions import imported_elsewhere, lead_to, moved_path

REPOSITORY, WORKTREE = Path("/home/me/project"), Path("/tmp/bisect/project")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/me/project", "/tmp/bisect/project"),
        ("/home/me/project/src/attn", "/tmp/bisect/project/src/attn"),
        ("/home/me/projector", "/home/me/projector"),
        ("/usr/lib/python3", "/usr/lib/python3"),
        ("/home/me/project/.venv/lib/site-packages", "/home/me/project/.venv/lib/site-packages"),
    ],
)
def test_a_path_in_the_repository_becomes_one_in_the_worktree(path, expected):
    assert moved_path(path, REPOSITORY, WORKTREE) == expected


def test_paths_and_editable_installs_lead_to_the_worktree(monkeypatch, tmp_path):
    tmp_path.joinpath("src").mkdir()
    finder = ModuleType("__editable___project_finder")
    finder.MAPPING = {"attn": "/home/me/project/src/attn", "other": "/opt/other"}  # type: ignore[attr-defined]
    found = type("Finder", (), {"__module__": finder.__name__})
    monkeypatch.setitem(sys.modules, finder.__name__, finder)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, found])
    monkeypatch.setattr(sys, "path", ["", "/home/me/project/lib", *sys.path])
    monkeypatch.setenv("PYTHONPATH", "/home/me/project:/opt")
    lead_to(tmp_path, REPOSITORY)
    assert sys.path[:3] == [str(tmp_path), str(tmp_path / "src"), str(tmp_path / "lib")]
    assert "" not in sys.path
    assert {"attn": str(tmp_path / "src/attn"), "other": "/opt/other"} == finder.MAPPING
    assert sys.modules["os"].environ["PYTHONPATH"] == f"{tmp_path}:/opt"


def test_a_module_of_the_users_own_files_is_named(monkeypatch):
    module = ModuleType("attn_of_project")
    module.__file__ = "/home/me/project/attn.py"
    monkeypatch.setitem(sys.modules, "attn_of_project", module)
    assert imported_elsewhere(REPOSITORY, WORKTREE) == (
        "module attn_of_project was imported from /home/me/project/attn.py"
    )
    monkeypatch.delitem(sys.modules, "attn_of_project")
    assert imported_elsewhere(REPOSITORY, WORKTREE) == ""

"""A path after a space, which pytest takes for a path of tests before it knows our options."""

import pytest

from pytest_attnmem.plugin.options import OPTIONS

PATHS = [option for option in OPTIONS if option.kind in ("path", "directory")]


@pytest.fixture
def outside(suite, tmp_path_factory):
    """A folder that has no ini file, nor has one above it that the suite's folder has."""
    suite.write("def test_it(): pass")
    return tmp_path_factory.mktemp("outside of it")


def named(option, folder):
    if option.kind == "directory":
        return folder
    path = folder / "a.file"
    path.write_text('{"schema": 1, "entries": []}')
    return path


@pytest.mark.parametrize("option", PATHS, ids=lambda option: option.name)
def test_a_path_that_moves_the_rootdir_is_refused(suite, outside, option):
    path = named(option, outside)
    ran = suite.run(option.flag, str(path), json_file=None)
    assert ran.result.ret == pytest.ExitCode.USAGE_ERROR
    (line, *_) = ran.result.errlines
    assert line.startswith(f"ERROR: {option.flag} {path}: pytest takes a path after a space for")
    assert f"and no ini file, not with rootdir {suite.path} and pytest.ini of {suite.path}" in line
    assert line.endswith(f"; write '{option.flag}={path}'")
    assert suite.run(f"{option.flag}={path}", json_file=None).outcomes == {"passed": 1}


def test_a_path_that_moves_nothing_may_follow_a_space(suite, outside, monkeypatch):
    missing, inside = outside / "not-yet.json", suite.path / "rows.json"
    inside.write_text("")
    for given in (missing, inside, "x" * 300):
        ran = suite.run("--attnmem-json", str(given), json_file=None)
        assert "pytest takes a path" not in ran.result.stderr.str()
    path = named(PATHS[0], outside)
    ran = suite.run("--attnmem-json", str(path), f"--rootdir={suite.path}", "-c", "pytest.ini")
    assert ran.outcomes == {"passed": 1}
    monkeypatch.setenv("PYTEST_ADDOPTS", f"--attnmem-json {path}")
    assert suite.run(json_file=None).result.ret == pytest.ExitCode.USAGE_ERROR

"""The files of commits, beside those of the user."""

import pytest

from pytest_attnmem.commits.commit_files import FixedTests, commit_files, fixed_tests
from pytest_attnmem.commits.repository import Repository
from pytest_attnmem.errors import AttnMemError

from .repositories import Step, commits, git, repository


@pytest.fixture
def folder(tmp_path):
    steps = [
        Step({"attn.py": "0", "sub/gone.py": "0"}),
        Step({"attn.py": "1", "tests/test_a.py": "1", "sub/gone.py": None}),
        Step({"attn.py": "2", "tests/test_a.py": "2", "tests/data/x": "2"}),
    ]
    return repository(tmp_path / "r", steps)


def files(path) -> dict[str, str]:
    return {
        file.relative_to(path).as_posix(): file.read_text("utf-8")
        for file in path.rglob("*")
        if file.is_file() and file.name != ".git"
    }


def test_each_commit_has_its_own_files_and_the_users_stay(folder):
    known = commits(folder)
    folder.joinpath("attn.py").write_text("mine", "utf-8")
    with commit_files(Repository(folder)) as made:
        made.check_out(known[0])
        assert files(made.path) == {"attn.py": "0", "sub/gone.py": "0"}
        made.path.joinpath("left.py").write_text("by a test", "utf-8")
        made.path.joinpath("attn.py").write_text("by a test", "utf-8")
        made.check_out(known[1])
        assert files(made.path) == {"attn.py": "1", "tests/test_a.py": "1"}
    assert not made.path.parent.exists()
    assert git(folder, "worktree", "list").count("\n") == 1
    assert folder.joinpath("attn.py").read_text("utf-8") == "mine"
    assert Repository(folder).changed_files() == 1


def test_tests_of_the_bad_end_are_there_at_every_commit(folder):
    repository, known = Repository(folder / "tests"), commits(folder)
    words = ["test_a.py::test_x", "data", "absent.py", "-k", "x"]
    assert fixed_tests(repository, "each", known[2], words) == FixedTests()
    fixed = fixed_tests(repository, "bad", known[2], words)
    assert fixed == FixedTests(("tests/test_a.py", "tests/data"), known[2])
    assert fixed_tests(repository, "main~1", known[2], words) == FixedTests(
        ("tests/test_a.py",), known[1]
    )
    with commit_files(repository, fixed) as made:
        made.check_out(known[0])
        assert files(made.path) == {
            **{"attn.py": "0", "sub/gone.py": "0"},
            **{"tests/test_a.py": "2", "tests/data/x": "2"},
        }
        made.check_out(known[1])
        assert files(made.path)["tests/test_a.py"] == "2"


def test_tests_of_a_folder_are_there_at_every_commit(folder, tmp_path):
    repository, known = Repository(folder), commits(folder)
    tmp_path.joinpath("new/more/__pycache__").mkdir(parents=True)
    tmp_path.joinpath("new/test_new.py").write_text("new", "utf-8")
    tmp_path.joinpath("new/more/test_b.py").write_text("b", "utf-8")
    tmp_path.joinpath("new/more/__pycache__/x.pyc").write_text("", "utf-8")
    fixed = fixed_tests(repository, str(tmp_path / "new"), known[2], ["test_new.py::test", "more"])
    with commit_files(repository, fixed) as made:
        made.check_out(known[0])
        assert files(made.path) == {
            **{"attn.py": "0", "sub/gone.py": "0"},
            **{"test_new.py": "new", "more/test_b.py": "b"},
        }
        tmp_path.joinpath("new/test_new.py").unlink()
        with pytest.raises(AttnMemError, match=r"^cannot copy .*test_new\.py: No such file or"):
            made.check_out(known[0])


@pytest.mark.parametrize(
    ("source", "words", "message"),
    [
        ("bad", ["-x"], "--tests-from bad: no test is named"),
        ("bad", ["absent.py"], "--tests-from bad: none of absent.py is there"),
        (".", ["absent.py", "b.py"], "--tests-from .: none of absent.py, b.py is there"),
        ("bad", ["../other.py"], "--tests-from bad: none of ../other.py is there"),
    ],
)
def test_tests_that_are_not_there_are_refused(folder, source, words, message):
    with pytest.raises(AttnMemError) as error:
        fixed_tests(Repository(folder), source, commits(folder)[2], words)
    assert str(error.value) == (
        f"{message}; name the files of the tests after --, as in -- tests/test_memory.py"
    )


def test_with_paths_no_other_files_are_there_but_the_tests(folder):
    known = commits(folder)
    tests = FixedTests(("tests/test_a.py",), known[2])
    with commit_files(Repository(folder), tests, ["sub", "attn.py"]) as made:
        made.check_out(known[0])
        assert files(made.path) == {"attn.py": "0", "sub/gone.py": "0", "tests/test_a.py": "2"}
        made.check_out(known[2])
        assert files(made.path) == {"attn.py": "2", "tests/test_a.py": "2"}


def test_the_users_settings_and_hooks_do_not_count(folder):
    """A sparse checkout of the user's has other files; a hook or a filter would run."""
    known = commits(folder)
    git(folder, "sparse-checkout", "set", "tests")
    git(folder, "config", "filter.lfs.smudge", "touch ran; cat")
    git(folder, "config", "filter.lfs.required", "true")
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        hook = folder / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\ntouch ran\n", "utf-8")
        hook.chmod(0o755)
    with commit_files(Repository(folder)) as made:
        made.check_out(known[0])
        assert files(made.path) == {"attn.py": "0", "sub/gone.py": "0"}
        assert not [*made.path.parent.rglob("ran")]
    assert not [*folder.rglob("ran")]

"""The commits that git tells, and what it refuses."""

import pytest

from pytest_attnmem.commits.repository import Commit, Repository
from pytest_attnmem.errors import AttnMemError

from .repositories import Step, commits, git, repository


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns 0 - 1 - 2 - 5, a merge of 3 - 4, which start from 1; and 6, which has no parent."""
    steps = [
        Step({"a.py": "0", "sub/b.py": "0"}),
        Step(),
        Step({"a.py": "2"}),
        Step({"a.py": "3"}, parents=(1,), author="Grace"),
        Step({"sub/b.py": "4"}),
        Step(parents=(2, 4)),
    ]
    made = repository(tmp_path_factory.mktemp("history") / "r", steps)
    git(made, "fast-import", "--quiet", text=(
        "commit refs/heads/other\ncommitter A <a@x.example> 1700000000 +0000\ndata 1\n6\n"
    ))  # fmt: skip
    return made


def test_the_ends_are_resolved_and_the_chain_follows_first_parents(folder):
    repository, known = Repository(folder / "sub"), commits(folder)
    assert repository.root == folder.resolve()
    assert repository.folder == "sub"
    assert repository.ends(f"{known[0]}..") == (known[0], known[5])
    assert repository.chain(known[0], known[5]) == [known[n] for n in (0, 1, 2, 5)]
    assert repository.chain(known[3], known[5]) == [known[n] for n in (3, 4, 5)]
    assert repository.parents(known[5]) == [known[2], known[4]]
    assert repository.merge_base(known[2], known[4]) == known[1]
    commit = Commit(known[3], "Grace", "2023-11-15", "3")
    assert repository.describe([known[3]]) == {known[3]: commit}
    assert commit.short == known[3][:10]


def test_paths_are_those_of_the_commit(folder):
    repository, known = Repository(folder / "sub"), commits(folder)
    assert repository.path_from_root("b.py") == "sub/b.py"
    assert repository.path_from_root("../a.py") == "a.py"
    assert repository.path_from_root("../../x.py") == ""
    assert repository.has(known[0], "sub/b.py")
    assert repository.has(known[0], ".")
    assert not repository.has(known[0], "c.py")


def test_files_with_changes_are_counted_but_for_some(folder):
    repository = Repository(folder / "sub")
    assert repository.changed_files() == 0
    for name in ("new.py", "h.html", "sub/h[1].json"):
        folder.joinpath(name).write_text("x", "utf-8")
    assert repository.changed_files() == 3
    assert repository.changed_files(["../h.html", "h[1].json", "/nowhere/x"]) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("HEAD", "expected good..bad, two commits such as v1.2..HEAD, got 'HEAD'"),
        ("a...b", "expected good..bad, two commits such as v1.2..HEAD, got 'a...b'"),
        ("..", "expected good..bad, two commits such as v1.2..HEAD, got '..'"),
        ("a..b..c", "expected good..bad, two commits such as v1.2..HEAD, got 'a..b..c'"),
        ("nowhere..HEAD", "there is no commit 'nowhere' in {root}"),
        ("--all..HEAD", "there is no commit '--all' in {root}"),
        ("HEAD..main", "HEAD..main: both ends are commit {5}; name an earlier good one"),
        (
            "{4}..{2}",
            "{4}..{2}: {4} is not an ancestor of the bad commit; they part at {1}: {1}..{2}",
        ),
        (
            "HEAD..{0}",
            "HEAD..{0}: the bad commit is older than the good one;"
            " {0}..HEAD is the other way round",
        ),
        ("other..HEAD", "other..HEAD: other is not an ancestor of the bad commit"),
    ],
)
def test_wrong_ends_are_refused(folder, text, message):
    known = [sha[:10] for sha in commits(folder)]
    repository = Repository(folder)
    with pytest.raises(AttnMemError) as error:
        repository.ends(text.format(*known))
    assert str(error.value) == message.format(*known, root=repository.root)


def test_a_folder_outside_of_a_repository_is_refused_and_git_may_be_missing(tmp_path, monkeypatch):
    with pytest.raises(AttnMemError) as error:
        Repository(tmp_path)
    assert str(error.value) == (
        "git rev-parse: fatal: not a git repository (or any of the parent directories): .git"
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AttnMemError, match=r"^cannot run git: No such file or directory; install"):
        Repository(tmp_path)


def listed(folder, start, end, paths=(), *, first_parent=False):
    known = commits(folder)
    number = {sha: place for place, sha in enumerate(known)}
    return [
        (number[one.sha], *(number[sha] for sha in one.parents))
        for one in Repository(folder).listed(
            start and known[start], known[end], paths, first_parent=first_parent, since=""
        )
    ]


def test_commits_are_listed_each_after_its_parents(folder):
    assert sorted(listed(folder, 0, 5)) == [(0,), (1, 0), (2, 1), (3, 1), (4, 3), (5, 2, 4)]
    assert listed(folder, 0, 5, first_parent=True) == [(0,), (1, 0), (2, 1), (5, 2)]
    assert listed(folder, 0, 4, ["sub"]) == [(0,), (4, 0)]
    assert listed(folder, 0, 5, ["sub"]) == [(0,)]  # the merge left out what the branch changed
    places = [one[0] for one in listed(folder, 0, 5)]
    assert places.index(2) < places.index(5) > places.index(4) > places.index(3)


def test_what_comes_before_a_range_has_no_parents(folder):
    assert sorted(listed(folder, 1, 5)) == [(1,), (2, 1), (3, 1), (4, 3), (5, 2, 4)]
    # A branch that left before the range: its real start is there, and not that of the range.
    assert (1,) in listed(folder, 2, 5)
    assert (2,) in listed(folder, 2, 5)


def test_equal_trees_are_equal_files(folder):
    repository, known = Repository(folder), commits(folder)
    whole = repository.trees(known[:3], ())
    assert whole[known[0]] == whole[known[1]] != whole[known[2]]
    some = repository.trees(known[:3], ("sub", "c.py"))
    assert len({*some.values()}) == 1
    assert repository.trees(known[:1], ("c.py",)) == {known[0]: ""}


def test_a_bare_repository_is_read_too(folder, tmp_path):
    git(tmp_path, "clone", "-q", "--bare", str(folder), "net.git")
    repository = Repository(tmp_path / "net.git")
    assert repository.root == (tmp_path / "net.git").resolve()
    assert (repository.folder, repository.changed_files()) == (".", 0)
    assert repository.ends("main~1..") == (commits(folder)[2], commits(folder)[5])

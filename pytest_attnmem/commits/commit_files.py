"""The files of one commit after another, in a folder beside the user's own files.

The folder belongs to a repository of its own, which borrows the objects of the user's one: nothing
is written there, even if this process is killed.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import AttnMemError
from .repository import Repository, git


@dataclass(frozen=True, slots=True)
class FixedTests:
    """Tests that are the same at every commit."""

    paths: tuple[str, ...] = ()
    """Files and folders, as paths from the root of the repository."""
    commit: str = ""
    """The commit that they are taken from; empty: ``files`` has them."""
    files: tuple[Path, ...] = ()
    """The files and folders to copy, one for each path."""


class CommitFiles:
    """The files of one commit at a time, at ``path``; the user's repository is only read."""

    def __init__(
        self, repository: Repository, folder: Path, tests: FixedTests, only: Sequence[str]
    ) -> None:
        self._git = folder / "git"
        self._tests = tests
        self.path = folder / repository.root.name.removesuffix(".git")
        objects = repository.git("rev-parse", "--git-path", "objects").rstrip("\n")
        form = repository.git("rev-parse", "--show-object-format").strip()
        git("init", "--quiet", "--bare", "--template=", f"--object-format={form}", str(self._git))
        self.path.mkdir()
        info = self._git / "info"
        info.mkdir()
        if only:
            paths = dict.fromkeys((*only, *tests.paths))
            lines = [re.sub(r"([*?\[\\])", r"\\\1", f"/{path}\n") for path in paths]
            info.joinpath("sparse-checkout").write_text("".join(lines), "utf-8")
        self._settings = (
            f"core.sparseCheckout={'true' if only else 'false'}",
            # Large files stay pointers: a filter would download them.
            *("filter.lfs.process=", "filter.lfs.smudge=", "filter.lfs.required=false"),
        )
        shared = (repository.path / objects).resolve()
        alternates = self._git / "objects/info/alternates"
        alternates.parent.mkdir(exist_ok=True)
        alternates.write_text(f"{shared}\n", "utf-8")

    def _run(self, *arguments: str) -> None:
        settings = [word for setting in self._settings for word in ("-c", setting)]
        git(f"--git-dir={self._git}", f"--work-tree={self.path}", *settings, *arguments)

    def check_out(self, commit: str) -> None:
        """Puts the files of a commit there, and the fixed tests over them.

        Raises:
            AttnMemError: git refuses, or a test cannot be copied.
        """
        tests = self._tests
        self._run("-C", str(self.path), "read-tree", "-u", "--reset", commit)
        self._run("-C", str(self.path), "clean", "-ffdxq")  # what a test wrote there
        if tests.commit:
            self._run("-C", str(self.path), "checkout", "-q", tests.commit, "--", *tests.paths)
        for source, path in zip(tests.files, tests.paths, strict=False):
            _copy(source, self.path / path)


def _copy(source: Path, target: Path) -> None:
    try:
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=_CACHES)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    except OSError as error:
        raise AttnMemError(f"cannot copy {source}: {error.strerror or error}") from error


_CACHES = shutil.ignore_patterns("__pycache__", ".pytest_cache")


@contextmanager
def commit_files(
    repository: Repository, tests: FixedTests = FixedTests(), only: Sequence[str] = ()
) -> Iterator[CommitFiles]:
    """Yields an empty folder for files, and removes it at the end, also after an interrupt.

    With ``only``, no other files than these and the tests are there.

    Raises:
        AttnMemError: git cannot make a repository.
    """
    with tempfile.TemporaryDirectory(prefix="attnmem-", ignore_cleanup_errors=True) as folder:
        yield CommitFiles(repository, Path(folder).resolve(), tests, only)


def fixed_tests(repository: Repository, source: str, end: str, words: Sequence[str]) -> FixedTests:
    """Returns the tests that a user takes from elsewhere.

    Args:
        repository: the repository; words are relative to the folder that it was found from.
        source: ``each`` for each commit's own tests, ``bad`` or ``newest`` for those of the end,
            a commit, or a folder, which starts with ``.`` or is absolute.
        end: the hash of the bad or newest end.
        words: pytest's arguments, of which those that exist there are tests.

    Raises:
        AttnMemError: there is no such commit or folder, or it has none of the tests.
    """
    if source == "each":
        return FixedTests()
    files = [word.partition("::")[0] for word in words if not word.startswith("-")]
    paths = {file: repository.path_from_root(file) for file in files}
    if source.startswith(".") or Path(source).is_absolute():
        there = {file: Path(source, file).resolve() for file in files}
        found = [file for file in files if paths[file] and there[file].exists()]
        made = FixedTests(tuple(paths[f] for f in found), "", tuple(there[f] for f in found))
    else:
        commit = end if source in ("bad", "newest") else repository.resolved(source)
        found = [file for file in files if paths[file] and repository.has(commit, paths[file])]
        made = FixedTests(tuple(paths[file] for file in found), commit)
    if not found:
        asked = f"none of {', '.join(files)} is there" if files else "no test is named"
        raise AttnMemError(
            f"--tests-from {source}: {asked}; name the files of the tests after --, as in"
            " -- tests/test_memory.py"
        )
    return made

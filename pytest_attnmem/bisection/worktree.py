"""A temporary worktree: the files of one commit after another, beside the user's own files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import AttnMemError
from .history import History


@dataclass(frozen=True, slots=True)
class FixedTests:
    """Tests that are the same at every commit."""

    paths: tuple[str, ...] = ()
    """Files and folders, as paths from the root of the repository."""
    commit: str = ""
    """The commit that they are taken from; empty: ``files`` has them."""
    files: tuple[Path, ...] = ()
    """The files and folders to copy, one for each path."""


class Worktree:
    """A worktree of a repository, at ``path``; the user's files and index are not touched."""

    def __init__(self, history: History, path: Path, tests: FixedTests) -> None:
        self._history = history
        self._tests = tests
        self.path = path

    def check_out(self, commit: str) -> None:
        """Puts the files of a commit there, and the fixed tests over them.

        Raises:
            AttnMemError: git refuses, or a test cannot be copied.
        """
        git, tests = self._history.git, self._tests
        git("checkout", "--force", "--detach", "--quiet", commit, folder=self.path)
        git("clean", "-ffdxq", folder=self.path)  # what a test wrote there
        if tests.commit:
            git("checkout", "--quiet", tests.commit, "--", *tests.paths, folder=self.path)
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
def worktree(history: History, tests: FixedTests = FixedTests()) -> Iterator[Worktree]:
    """Yields an empty worktree, and removes it at the end, also after an interrupt.

    Raises:
        AttnMemError: git cannot make a worktree.
    """
    folder = Path(tempfile.mkdtemp(prefix="attnmem-bisect-")).resolve()
    path = folder / history.root.name
    try:
        history.git("worktree", "add", "--detach", "--no-checkout", "--quiet", str(path), "HEAD")
        yield Worktree(history, path, tests)
    finally:
        with suppress(AttnMemError):
            history.git("worktree", "remove", "--force", "--force", str(path))
        shutil.rmtree(folder, ignore_errors=True)


def fixed_tests(history: History, source: str, bad: str, words: Sequence[str]) -> FixedTests:
    """Returns the tests that a user takes from elsewhere.

    Args:
        history: the repository; words are relative to the folder that it was found from.
        source: ``each`` for each commit's own tests, ``bad`` for those of the bad end, a commit,
            or a folder, which starts with ``.`` or is absolute.
        bad: the hash of the bad end.
        words: pytest's arguments, of which those that exist there are tests.

    Raises:
        AttnMemError: there is no such commit or folder, or it has none of the tests.
    """
    if source == "each":
        return FixedTests()
    files = [word.partition("::")[0] for word in words if not word.startswith("-")]
    paths = {file: history.path_from_root(file) for file in files}
    if source.startswith(".") or Path(source).is_absolute():
        there = {file: Path(source, file).resolve() for file in files}
        found = [file for file in files if paths[file] and there[file].exists()]
        made = FixedTests(tuple(paths[f] for f in found), "", tuple(there[f] for f in found))
    else:
        commit = bad if source == "bad" else history.resolved(source)
        found = [file for file in files if paths[file] and history.has(commit, paths[file])]
        made = FixedTests(tuple(paths[file] for file in found), commit)
    if not found:
        asked = f"none of {', '.join(files)} is there" if files else "no test is named"
        raise AttnMemError(
            f"--tests-from {source}: {asked}; name the files of the tests after --, as in"
            " -- tests/test_memory.py"
        )
    return made

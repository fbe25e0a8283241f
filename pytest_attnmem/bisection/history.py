"""The commits between two commits of a repository, read by git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import AttnMemError
from ..units import excerpt


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit."""

    sha: str
    author: str
    date: str
    """The author's date, ``2026-04-14``."""
    subject: str

    @property
    def short(self) -> str:
        """Returns the first ten digits of its hash."""
        return self.sha[:10]


class History:
    """The commits of one repository."""

    def __init__(self, folder: Path) -> None:
        """Finds the repository of a folder.

        Raises:
            AttnMemError: git is missing, or the folder is in no repository.
        """
        self._folder = folder
        try:
            self.root = Path(self.git("rev-parse", "--show-toplevel").rstrip("\n")).resolve()
        except AttnMemError as error:
            if "not a git repository" not in str(error):
                raise
            raise AttnMemError(
                f"{folder} is in no git repository; run this in the repository of the tests"
            ) from None

    def git(self, *arguments: str, folder: Path | None = None) -> str:
        """Returns the output of a git command; hooks do not run.

        Raises:
            AttnMemError: git is missing, or the command fails; with its last line.
        """
        command = ["git", "-C", str(folder or self._folder), "-c", "core.hooksPath=/dev/null"]
        variables = {name: text for name, text in os.environ.items() if name not in _LOCAL}
        try:
            done = subprocess.run(
                [*command, *arguments],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                text=True,
                errors="surrogateescape",
                env={**variables, "LC_ALL": "C"},
                check=False,
            )
        except OSError as error:
            raise AttnMemError(f"cannot run git: {error.strerror}; install git") from None
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise AttnMemError(f"git {arguments[0]}: {excerpt(lines[-1], 200)}")
        return done.stdout

    def ends(self, text: str) -> tuple[str, str]:
        """Returns the hashes of ``good..bad``; an end that is left out is HEAD.

        Raises:
            AttnMemError: the text is not two commits, or the good one is not an ancestor of the
                bad one.
        """
        parts = text.split("..")
        if len(parts) != 2 or not any(parts) or "..." in text:
            raise AttnMemError(
                f"expected good..bad, two commits such as v1.2..HEAD, got {excerpt(text)!r}"
            )
        good, bad = (self.resolved(part or "HEAD") for part in parts)
        if good == bad:
            raise AttnMemError(
                f"{text}: both ends are commit {good[:10]}; name an earlier good one"
            )
        base = self.merge_base(good, bad)
        if base == bad:
            raise AttnMemError(
                f"{text}: the bad commit is older than the good one; {parts[1] or 'HEAD'}.."
                f"{parts[0] or 'HEAD'} is the other way round"
            )
        if base != good:
            known = f"; they part at {base[:10]}: {base[:10]}..{parts[1] or 'HEAD'}" if base else ""
            raise AttnMemError(f"{text}: {parts[0]} is not an ancestor of the bad commit{known}")
        return good, bad

    def resolved(self, name: str) -> str:
        """Returns the hash of a commit.

        Raises:
            AttnMemError: there is no such commit.
        """
        try:
            if name.startswith("-"):
                raise AttnMemError("an option")
            return self.git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").strip()
        except AttnMemError:
            raise AttnMemError(f"there is no commit {excerpt(name)!r} in {self.root}") from None

    def merge_base(self, one: str, other: str) -> str:
        """Returns the newest common ancestor of two commits; empty if they have none."""
        try:
            return self.git("merge-base", one, other).strip()
        except AttnMemError:
            return ""

    @property
    def folder(self) -> str:
        """Returns the folder that the repository was found from, as a path from the root."""
        return self._folder.resolve().relative_to(self.root).as_posix()

    def path_from_root(self, path: str) -> str:
        """Returns a path relative to the folder as one from the root; empty if it is outside."""
        from_root = os.path.normpath(os.path.join(self.folder, path))
        return "" if from_root.startswith("..") or os.path.isabs(from_root) else from_root

    def changed_files(self) -> int:
        """Returns the number of files with changes that no commit has; new files count too."""
        return len(self.git("status", "--porcelain").splitlines())

    def has(self, commit: str, path: str) -> bool:
        """Returns True if the commit has a file or folder at the path from the root."""
        try:
            self.git("cat-file", "-e", f"{commit}:{'' if path == '.' else path}")
        except AttnMemError:
            return False
        return True

    def chain(self, good: str, bad: str) -> list[str]:
        """Returns the commits from ``good`` to ``bad``, both included, each a parent of the next.

        Where commits were merged, the chain follows the first parent that descends from ``good``.
        """
        lines = self.git("rev-list", "--ancestry-path", "--parents", f"{good}..{bad}").split("\n")
        parents = {words[0]: words[1:] for line in lines if (words := line.split())}
        found = [bad]
        while found[-1] != good:
            found.append(next(p for p in parents[found[-1]] if p == good or p in parents))
        return found[::-1]

    def parents(self, commit: str) -> list[str]:
        """Returns the parents of a commit: two or more for a merge."""
        return self.git("rev-list", "--parents", "-n", "1", commit).split()[1:]

    def describe(self, commits: Sequence[str]) -> dict[str, Commit]:
        """Returns the author, date and subject of commits, by hash."""
        found = {}
        for start in range(0, len(commits), _AT_ONCE):
            some = commits[start : start + _AT_ONCE]
            text = self.git("log", "--no-walk=unsorted", f"--format={_FORMAT}", *some)
            for line in text.splitlines():
                sha, author, date, subject = line.split("\0", 3)
                found[sha] = Commit(sha, author, date, subject)
        return found


_AT_ONCE = 500
_FORMAT = "%H%x00%an%x00%as%x00%s"
#: What git sets for its hooks, and what would lead to another repository.
_LOCAL = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"})

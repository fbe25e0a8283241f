"""The commits of a repository, read by git, which writes nothing there."""

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


def git(*arguments: str, text: str = "") -> str:
    """Returns the output of a git command that reads a text; hooks do not run.

    Raises:
        AttnMemError: git is missing, or the command fails; with its last line.
    """
    command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"]
    variables = {name: value for name, value in os.environ.items() if name not in _LOCAL}
    try:
        done = subprocess.run(
            [*command, *arguments],
            input=text,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="surrogateescape",
            env={**variables, "LC_ALL": "C"},
            check=False,
        )
    except OSError as error:
        raise AttnMemError(f"cannot run git: {error.strerror}; install git") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        name = next((word for word in arguments if word in _COMMANDS), arguments[0])
        raise AttnMemError(f"git {name}: {excerpt(lines[-1], 200)}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class Listed:
    """One commit of a list, with the commits of the list that it follows."""

    sha: str
    parents: tuple[str, ...] = ()


class Repository:
    """The commits of one repository, which may be bare."""

    def __init__(self, folder: Path) -> None:
        """Finds the repository of a folder.

        Raises:
            AttnMemError: git is missing, or the folder is in no repository.
        """
        self.path = folder
        self.is_bare = self.git("rev-parse", "--is-bare-repository").strip() == "true"
        place = "--absolute-git-dir" if self.is_bare else "--show-toplevel"
        self.root = Path(self.git("rev-parse", place).rstrip("\n")).resolve()

    def git(self, *arguments: str, text: str = "") -> str:
        """Returns the output of a git command; hooks do not run.

        Raises:
            AttnMemError: git is missing, or the command fails; with its last line.
        """
        return git("-C", str(self.path), *arguments, text=text)

    @property
    def name(self) -> str:
        """Returns the name of the repository's folder, ``net`` of ``net.git`` too."""
        root = self.root.parent if self.root.name == ".git" else self.root
        return root.name.removesuffix(".git")

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
        return "." if self.is_bare else self.path.resolve().relative_to(self.root).as_posix()

    def path_from_root(self, path: str) -> str:
        """Returns a path relative to the folder as one from the root; empty if it is outside."""
        from_root = os.path.normpath(os.path.join(self.folder, path))
        return "" if from_root.startswith("..") or os.path.isabs(from_root) else from_root

    def changed_files(self, but: Sequence[str] = ()) -> int:
        """Returns the number of files with changes that no commit has; new files count too.

        The files ``but``, relative to the folder or absolute, do not count.
        """
        if self.is_bare:
            return 0
        inside = filter(None, map(self.path_from_root, but))
        paths = [":(top)", *(f":(top,exclude,literal){path}" for path in inside)]
        return len(self.git("status", "--porcelain", "--", *paths).splitlines())

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

    def listed(
        self, start: str, end: str, paths: Sequence[str], *, first_parent: bool, since: str
    ) -> list[Listed]:
        """Returns the commits up to ``end`` that change the paths, each after those it follows.

        The first ones have no parents: ``start``, if it is given, and where else a branch left
        what comes before it.
        """
        options = ["--topo-order", "--reverse", "--boundary", "--parents"]
        options += ["--first-parent"] * first_parent + [f"--since={since}"] * bool(since)
        words = [f"{start}..{end}" if start else end, "--", *paths]
        lines = self.git("rev-list", *options, *words).splitlines()
        edges = [line.removeprefix("-").split() for line in lines]
        outside = {line[1:].split()[0] for line in lines if line.startswith("-")}
        most = 1 if first_parent else None
        known = {words[0] for words in edges}
        found = [
            Listed(sha, tuple(one for one in parents[:most] if one in known))
            for sha, *parents in edges
            if sha not in outside
        ]
        first = dict.fromkeys(sha for one in found for sha in one.parents if sha in outside)
        return [*map(Listed, first), *found]

    def trees(self, commits: Sequence[str], paths: Sequence[str]) -> dict[str, str]:
        """Returns what each commit has at the paths, as one text: equal texts, equal files.

        Empty if a commit has none of the paths; without paths, all files count.
        """
        asked = [f"{sha}:{path}" for sha in commits for path in paths or ("",)]
        lines = self.git("cat-file", "--batch-check", text="\n".join([*asked, ""])).splitlines()
        ids = ["" if line.endswith(" missing") else line.split()[0] for line in lines]
        width = len(paths) or 1
        rows = [ids[place * width : place * width + width] for place in range(len(commits))]
        return {
            sha: "+".join(row) if any(row) else "" for sha, row in zip(commits, rows, strict=True)
        }

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


_COMMANDS = frozenset({"rev-parse", "init", "read-tree", "clean", "checkout"})
_AT_ONCE = 500
_FORMAT = "%H%x00%an%x00%as%x00%s"
#: What git sets for its hooks, and what would lead to another repository.
_LOCAL = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"})

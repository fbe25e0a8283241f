"""Repositories that are made in one go, by ``git fast-import``."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Step:
    """One commit: the files that it writes, and its parents by number; the one before it if none.

    A file whose text is None is deleted; one that starts with ``submodule`` is one, of the commit
    that follows the word. The title is the commit's number if none is given.
    """

    files: Mapping[str, str | None] = field(default_factory=dict)
    parents: tuple[int, ...] = ()
    author: str = "Ada"
    title: str = ""


def repository(folder: Path, steps: Sequence[Step]) -> Path:
    """Returns a repository whose commits stand an hour apart."""
    lines = []
    for number, step in enumerate(steps):
        when = f"{1_700_000_000 + 3600 * number} +0000"
        person = f"{step.author} <{step.author.lower()}@x.example>"
        lines += ["commit refs/heads/main", f"mark :{number + 1}"]
        lines += [
            f"author {person} {when}",
            f"committer {person} {when}",
            *_data(step.title or str(number)),
        ]
        parents = step.parents or ((number - 1,) if number else ())
        lines += [
            f"{'merge' if place else 'from'} :{parent + 1}" for place, parent in enumerate(parents)
        ]
        for name, text in step.files.items():
            if text is None:
                lines += [f"D {name}"]
            elif text.startswith("submodule "):
                lines += [f"M 160000 {text.removeprefix('submodule ')} {name}"]
            else:
                lines += [f"M 100644 inline {name}", *_data(text)]
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "fast-import", "--quiet", text="\n".join([*lines, ""]))
    git(folder, "reset", "-q", "--hard", "main")
    return folder


def git(folder: Path, *arguments: str, text: str = "") -> str:
    """Returns the output of a git command."""
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], input=text, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def commits(folder: Path) -> list[str]:
    """Returns the hashes in the order of the steps."""
    return git(folder, "rev-list", "--reverse", "--date-order", "main").split()


def _data(text: str) -> list[str]:
    return [f"data {len(text.encode())}", text]

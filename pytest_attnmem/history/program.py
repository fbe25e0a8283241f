"""A program whose public functions are measured at every commit, in place of tests."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import AttnMemError

#: Every function that is named is a test, and no setting of the repository counts.
_SETTINGS = "[pytest]\npython_functions = *\naddopts =\n"


@dataclass(frozen=True, slots=True)
class Program:
    """A copy of the program, in a folder where nothing of the repository is.

    The root of its sessions is that of the commit's files, whose lines tensors are told by.
    """

    path: Path
    names: tuple[str, ...]
    """Its public functions."""
    digest: str
    """What its text is known by."""

    def words(self, rows: Sequence[str] = ()) -> tuple[str, ...]:
        """Returns the arguments of pytest that run all functions, or those of some rows."""
        some = {row.partition(" ")[0].partition("[")[0] for row in rows} or {*self.names}
        settings = self.path.with_name("pytest.ini")
        return (
            *("-c", str(settings), "--rootdir=.", "--noconftest", "--import-mode=importlib"),
            *(f"{self.path}::{name}" for name in self.names if name in some),
        )


def program(path: Path, folder: Path) -> Program:
    """Copies the program to a folder.

    Raises:
        AttnMemError: it cannot be read or parsed, or has no public function.
    """
    try:
        text = path.read_text("utf-8")
        tree = ast.parse(text)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise AttnMemError(f"--program: cannot read {path}: {why}") from error
    except SyntaxError as error:
        raise AttnMemError(f"--program: {path}:{error.lineno}: {error.msg}") from error
    names = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        if not any("fixture" in ast.unparse(one) for one in node.decorator_list)
    ]
    if not names:
        raise AttnMemError(f"--program: {path} has no public function; each one is a row")
    copy = folder / path.name
    copy.write_text(text, "utf-8")
    folder.joinpath("pytest.ini").write_text(_SETTINGS, "utf-8")
    return Program(copy, tuple(names), hashlib.sha256(text.encode()).hexdigest())

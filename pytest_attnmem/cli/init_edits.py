"""Writes promises into files, as changes to show or apply: markers, and baseline entries."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff as lines_of_diff
from pathlib import Path
from typing import NamedTuple

from ..baselines.entries import Entries
from ..baselines.file import load, render
from ..contents import contents


class Edit(NamedTuple):
    """A file before and after the change; a new file is empty before."""

    path: Path
    before: str
    after: str


def edits(limits: Mapping[str, str], entries: Entries, rootdir: Path, baseline: Path) -> list[Edit]:
    """Returns the changes of test files, then that of the baseline.

    ``limits`` has the limit of each function by its place, ``test_attn.py:12``.

    Raises:
        AttnMemError: the baseline cannot be read.
    """
    files: dict[Path, dict[int, str]] = defaultdict(dict)
    for where, limit in limits.items():
        file, _, line = where.rpartition(":")
        files[rootdir / file][int(line)] = limit
    made = []
    for path, by_line in files.items():
        text = contents(path).decode("utf-8")
        made.append(Edit(path, text, marked(text, by_line)))
    if entries:
        known = load(baseline) if baseline.exists() else {}
        before = contents(baseline).decode("utf-8") if known else ""
        made.append(Edit(baseline, before, render({**known, **entries})))
    return made


def can_be_marked(rootdir: Path, where: str) -> bool:
    """Returns True if a function of the project's own files begins in this line."""
    file, _, line = where.rpartition(":")
    try:
        tree = ast.parse(contents(rootdir / file).decode("utf-8"))
    except (OSError, ValueError, SyntaxError):
        return False
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    own = file.endswith(".py") and not file.startswith("..")
    return own and any(
        isinstance(node, functions) and str(_first_line(node)) == line for node in ast.walk(tree)
    )


def marked(text: str, limits: dict[int, str]) -> str:
    """Returns a test file with a marker above each of the functions that begin in these lines."""
    tree = ast.parse(text)
    lines = text.splitlines(keepends=True)
    end = "\r\n" if lines[0].endswith("\r\n") else "\n"
    name = _name_of_pytest(tree)
    for line, limit in sorted(limits.items(), reverse=True):
        first = lines[line - 1]
        indent = first[: len(first) - len(first.lstrip())]
        marker = f'@{name or "pytest"}.mark.memory_budget("{limit}")'
        lines.insert(line - 1, f"{indent}{marker}{end}")
    if not name:
        lines.insert(_first_import(tree) - 1, f"import pytest{end}")
    return "".join(lines)


def _name_of_pytest(tree: ast.Module) -> str:
    """Returns the name by which a module knows pytest; empty if it does not import it."""
    aliases = (alias for node in tree.body if isinstance(node, ast.Import) for alias in node.names)
    return next((one.asname or one.name for one in aliases if one.name == "pytest"), "")


def _first_import(tree: ast.Module) -> int:
    """Returns the line of the first import that is not of ``__future__``, or of the first code."""
    code = [
        node
        for node in tree.body
        if not (isinstance(node, ast.ImportFrom) and node.module == "__future__")
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    imports = [node for node in code if isinstance(node, (ast.Import, ast.ImportFrom))]
    return _first_line((imports or code)[0])


def _first_line(node: ast.stmt) -> int:
    """Returns the line of a statement, or of its first decorator."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def unified_diff(edits: Sequence[Edit], rootdir: Path) -> Iterator[str]:
    """Yields the lines of a diff that ``git apply`` reads, with paths from the repository."""
    above = (folder for folder in (rootdir, *rootdir.parents) if (folder / ".git").exists())
    root = next(above, rootdir)
    for path, before, after in edits:
        inside = path.is_relative_to(root)
        name = path.relative_to(root).as_posix() if inside else path.as_posix()
        old = f"a/{name}" if before else "/dev/null"
        both = (before.splitlines(keepends=True), after.splitlines(keepends=True))
        for line in lines_of_diff(*both, old, f"b/{name}"):
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"

"""Runs the blocks of a page in order, as its reader would.

- A block with a title, ```` ```python title="attn.py" ````, is a file.
- A block ``diff`` with a title changes this file: its old lines stand there once.
- A block ``console`` has commands after ``$``. Each line below a command is printed by it, in this
  order; ``…`` stands for any lines.
- A block ``python`` is a doctest if it starts with ``>>>``; other blocks are one module for the
  whole page.
- A block ``py`` is not run: a generated signature, or code for a GPU.
- A block ``sh`` is for the reader's shell, and is not run.
- A block ``text`` has lines that a command of the page printed.
- A block ``yaml`` is read as YAML.
"""

import doctest
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from pytest_attnmem.cli import main

ROOT = Path(__file__).parents[2]
#: What is not run: it installs, needs another machine, or is a target of the Makefile.
LEFT_OUT = ("pip", "make", "git", "cd")
BLOCK = re.compile(r"^( *)```(\w*)([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of a page."""

    language: str
    title: str
    text: str
    line: int


def blocks(path: Path) -> list[Block]:
    """Returns the blocks of a page, without their indentation."""
    page = path.read_text("utf-8")
    return [
        Block(
            found[2],
            "".join(re.findall(r'title="([^"]+)"', found[3])),
            re.sub(rf"^{found[1]}", "", found[4], flags=re.MULTILINE),
            page.count("\n", 0, found.start()) + 1,
        )
        for found in BLOCK.finditer(page)
    ]


def calls(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the commands of a console, each with the lines below it."""
    for call in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = call.replace("\\\n", " ").partition("\n")
        yield command, [line.rstrip() for line in shown.splitlines()]


def missing(shown: list[str], printed: list[str]) -> list[str]:
    """Returns the lines that were not printed, or not after the line above."""
    place, lost = 0, []
    for line in filter(None, shown):
        if line.strip() == "…":
            continue
        if line in printed[place:]:
            place = printed.index(line, place) + 1
        else:
            lost.append(line)
    return lost


def patched(text: str, diff: str) -> str:
    """Returns the text with the change that a diff shows."""
    lines = diff.splitlines(keepends=True)
    old = "".join(line[1:] or line for line in lines if line[0] != "+")
    new = "".join(line[1:] or line for line in lines if line[0] != "-")
    assert text.count(old) == 1, f"not in the file once: {old}"
    return text.replace(old, new)


class Walk:
    """One reader's folder, and what was printed in it."""

    def __init__(self, pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
        self._pytester, self._capsys = pytester, capsys
        self._printed: list[str] = []
        self._module: dict[str, object] = {"__name__": "page"}
        pytester.syspathinsert()

    def run(self, path: Path) -> int:
        """Runs a page, and returns the number of its blocks that were run."""
        steps: dict[str, Callable[[Block], object]] = {
            "console": self._console,
            "python": self._python,
            "text": self._text,
            "yaml": lambda block: yaml.safe_load(block.text),
            "py": lambda block: None,
            "sh": lambda block: None,
        }
        found = blocks(path)
        for block in found:
            if block.title:
                self._write(block)
            elif block.language in steps:
                steps[block.language](block)
            else:
                raise AssertionError(f"{path.name}:{block.line}: nothing runs this block")
        return len(found)

    def _write(self, block: Block) -> None:
        target = self._pytester.path / block.title
        target.parent.mkdir(parents=True, exist_ok=True)
        text = block.text
        if block.language == "diff":
            text = patched(target.read_text("utf-8"), block.text)
        target.write_text(text, "utf-8")
        sys.modules.pop(target.stem, None)

    def _console(self, block: Block) -> None:
        for command, shown in calls(block.text):
            program, *arguments = shlex.split(command)
            if program in LEFT_OUT or needs_null(arguments):
                continue
            printed = self._call(program, arguments)
            lost = missing(shown, printed)
            assert not lost, "\n".join([f"line {block.line}: not printed:", *lost, "of", *printed])
            self._printed += printed

    def _call(self, program: str, arguments: list[str]) -> list[str]:
        if program == "pytest":
            result = self._pytester.runpytest_inprocess("-pno:cacheprovider", *arguments)
            return [line.rstrip() for line in result.outlines + result.errlines]
        assert program == "attnmem", f"nothing runs {program}"
        self._capsys.readouterr()
        main(arguments)
        return [line.rstrip() for part in self._capsys.readouterr() for line in part.splitlines()]

    def _python(self, block: Block) -> None:
        if not block.text.startswith(">>>"):
            exec(compile(block.text, f"line {block.line}", "exec"), self._module)
            return
        test = doctest.DocTestParser().get_doctest(block.text, self._module, "page", "", block.line)
        test.globs, told = self._module, list[str]()
        doctest.DocTestRunner(verbose=False).run(test, out=told.append, clear_globs=False)
        assert not told, "".join(told)

    def _text(self, block: Block) -> None:
        assert not missing([line.rstrip() for line in block.text.splitlines()], self._printed)


def needs_null(arguments: list[str]) -> bool:
    """Returns True for commands of the null device, which ``tests/null/test_docs.py`` runs."""
    return "run" in arguments[:1] or any(word.startswith("null") for word in arguments)

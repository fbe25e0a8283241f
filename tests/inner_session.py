"""A session of pytest in this process, for tables of many tests, and the page that shows one."""

import contextlib
import io
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

#: Each session would collect all garbage five times, and the watch for threads would wait for a
#: server.
_WITHOUT = ("cacheprovider", "hypothesispytest", "unraisableexception", "asyncio", "rerunfailures")


def rows(folder: Path, file: str, *options: str, plugins: tuple[object, ...] = ()) -> list[Any]:
    """The results of the tests in a file of a folder."""
    printed = io.StringIO()
    without = [f"-pno:{name}" for name in _WITHOUT]
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.chdir(folder)
        arguments = [file, "-s", *without, "--import-mode=importlib", "--attnmem-json=rows.json"]
        pytest.main([*arguments, *options], plugins=plugins)
    sys.modules.pop(Path(file).stem, None)  # the next session has a file of this name
    written = folder / "rows.json"
    if not written.is_file():
        raise RuntimeError(printed.getvalue())
    results: list[Any] = json.loads(written.read_text("utf-8"))["results"]
    written.unlink()
    return results


@dataclass(frozen=True)
class Part:
    """A part of a page between ``<!-- name -->`` and ``<!-- /name -->``."""

    page: Path
    name: str

    def _parts(self) -> tuple[str, str, str]:
        before, start, rest = self.page.read_text("utf-8").partition(f"<!-- {self.name} -->\n")
        text, end, after = rest.partition(f"<!-- /{self.name} -->\n")
        return before + start, text, end + after

    def read(self) -> str:
        return self._parts()[1]

    def write(self, text: str) -> None:
        before, _, after = self._parts()
        self.page.write_text(before + text + after, "utf-8")


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def table(heads: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    return "\n".join(row(*cells) for cells in (heads, ["---"] * len(heads), *rows))

"""The line of the user's program in a stack of a snapshot."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple


class Line(NamedTuple):
    """A line of a program."""

    file: str
    """The name of the file, and its folder."""
    line: int
    function: str

    def __str__(self) -> str:
        if not self.file:
            return "no Python line was recorded"
        return f"{self.file.rpartition('/')[2]}:{self.line} in {self.function}"

    @property
    def place(self) -> tuple[str, str]:
        """Returns the file and the function, which an edit above the line does not change."""
        return self.file, self.function


UNKNOWN: Final = Line("", 0, "")
#: Frames of libraries and of the interpreter, which call what the user wrote.
_LIBRARIES: Final = re.compile(
    r"(^|/)(torch|triton|pytest_attnmem|_pytest|pluggy|site-packages|dist-packages)/"
    r"|(^|/)lib/python3[^/]*/|^<|^\?\?|\.(so|cpp|cc|cu|h|c)(\.|$)"
)


def line_of(frames: Iterable[Mapping[str, Any]]) -> Line:
    """Returns the innermost frame outside of libraries; else the innermost Python frame."""
    python = [frame for frame in frames if str(frame["filename"]).endswith(".py")]
    own = [frame for frame in python if not _LIBRARIES.search(_path(frame))]
    for frame in [*own[:1], *python[:1]]:
        file = "/".join(_path(frame).split("/")[-2:])
        return Line(file, int(frame["line"]), str(frame["name"]))
    return UNKNOWN


def _path(frame: Mapping[str, Any]) -> str:
    return str(frame["filename"]).replace("\\", "/")

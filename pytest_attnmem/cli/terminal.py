"""What a command shows: its progress on a terminal, and its answer."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

#: Colours by pytest's names, as numbers of ECMA-48.
_CODES: Final = MappingProxyType({"red": 31, "green": 32, "yellow": 33})


def width() -> int:
    """Returns the number of columns; 0, which limits nothing, if the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def painted(text: str, colour: str) -> str:
    """Returns the text in a colour; as it is without a colour, a terminal, or with ``NO_COLOR``.

    ``NO_COLOR`` follows https://no-color.org.
    """
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or not text
    return text if plain or not colour else f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


#: The seconds of silence that nobody minds, and those between two lines.
_SILENT_S: Final = 2.0
_BETWEEN_S: Final = 0.5


@contextmanager
def progress(text: str, *, lines: bool = False) -> Iterator[Callable[[str], None]]:
    """Shows the text and the seconds while the body runs; yields a function that changes the text.

    The line is cleared at the end, before the command prints its answer. Elsewhere than on a
    terminal nothing is shown, or with ``lines`` each text on a line of its own.
    """
    if not sys.stderr.isatty():
        loud = time.monotonic() + _SILENT_S

        def told(text: str) -> None:
            if lines and time.monotonic() >= loud:
                print(text, file=sys.stderr, flush=True)

        yield told
        return
    line = ProgressLine(text)
    line.start()
    try:
        yield line.show
    finally:
        line.end()


class ProgressLine(threading.Thread):
    """A thread that writes the line: the command itself may be inside an import for seconds."""

    def __init__(self, text: str) -> None:
        super().__init__(name="attnmem progress", daemon=True)
        self._text = text
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._written = False

    def run(self) -> None:
        """Writes the line until the end."""
        wait = _SILENT_S
        while not self._ended.wait(wait):
            wait = _BETWEEN_S
            seconds = f", {time.monotonic() - self._began:.0f} s"
            room = shutil.get_terminal_size().columns - len(seconds) - 1
            self._written = True
            self._write(self._text[: max(room, 0)] + seconds)

    def show(self, text: str) -> None:
        """Changes the text."""
        self._text = text

    def end(self) -> None:
        """Clears the line."""
        self._ended.set()
        self.join()
        if self._written:
            self._write("")

    def _write(self, text: str) -> None:
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def answer(
    as_json: bool, data: Callable[[], Mapping[str, Any]], text: Callable[[], Iterable[str]]
) -> None:
    """Prints the lines of an answer, or its data as JSON."""
    lines = [json.dumps(data(), indent=1, ensure_ascii=False)] if as_json else text()
    print("\n".join(lines))

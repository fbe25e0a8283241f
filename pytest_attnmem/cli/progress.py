"""A line of progress on standard error, where that is a terminal, after two seconds of work."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

#: The seconds of silence that nobody minds, and those between two lines.
_SILENT_S: Final = 2.0
_BETWEEN_S: Final = 0.5


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Shows the text and the seconds while the body runs; yields a function that changes the text.

    The line is cleared at the end, before the command prints its answer.
    """
    if not sys.stderr.isatty():
        yield lambda text: None
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

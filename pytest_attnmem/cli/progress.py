"""A line of progress on standard error, where that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

#: What is quicker than this needs no progress.
_QUIET_S: Final = 2.0


def progress(after_s: float = _QUIET_S) -> Callable[[str], None]:
    """Returns a function that replaces the line by a text, after ``after_s`` seconds.

    An empty text clears the line.
    """
    if not sys.stderr.isatty():
        return lambda text: None
    shown = time.monotonic() + after_s

    def show(text: str) -> None:
        if time.monotonic() >= shown:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    return show

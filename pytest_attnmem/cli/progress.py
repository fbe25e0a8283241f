"""A line of progress on standard error, where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable


def progress() -> Callable[[str], None]:
    """Returns a function that replaces the line by a text; an empty text clears the line."""
    if not sys.stderr.isatty():
        return lambda text: None
    return lambda text: print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

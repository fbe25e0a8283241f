"""The width and the colours of standard output, where that is a terminal."""

from __future__ import annotations

import os
import shutil
import sys
from types import MappingProxyType
from typing import Final

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

"""Suggestions for an unknown name: the known name that the user most likely meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

#: The symbols of :data:`pytest_attnmem.symbols.names.SYMBOLS`, the longer ones first.
_SYMBOL: Final = re.compile("itemsize|Hkv|dv|[BHNMd]")


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Returns the known name closest to *name*, or nothing; one in another case wins."""
    names = sorted({*known} - {name})
    same = [other for other in names if other.casefold() == name.casefold()]
    return next(iter(same or difflib.get_close_matches(name, names, 1, cutoff)), "")


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Returns the end of a message, ``; did you mean 'N'?``, or nothing if no name is close."""
    found = closest(name, known, cutoff)
    return f"; did you mean {found!r}?" if found else ""


def product(name: str) -> str:
    """Returns symbols without operators as a product, ``B*H*N`` for ``BHN``, or nothing."""
    symbols = _SYMBOL.findall(name)
    return "*".join(symbols) if "".join(symbols) == name else ""

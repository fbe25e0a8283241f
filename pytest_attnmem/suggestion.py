"""Suggestions for a name that is not known: the known name that a user most likely meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

#: The symbols of :data:`pytest_attnmem.symbols.attention_shape.SYMBOLS`, the longer ones first.
_SYMBOL: Final = re.compile("itemsize|Hkv|dv|[BHNMd]")


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the known name most like *name*, in another case above all; nothing if none is."""
    names = sorted({*known} - {name})
    same = [other for other in names if other.casefold() == name.casefold()]
    return next(iter(same or difflib.get_close_matches(name, names, 1, cutoff)), "")


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the end of a message, ``; did you mean 'N'?``; nothing if no name is close."""
    found = closest(name, known, cutoff)
    return f"; did you mean {found!r}?" if found else ""


def product(name: str) -> str:
    """Return symbols that were written together as a product: ``B*H*N`` for ``BHN``."""
    symbols = _SYMBOL.findall(name)
    return "*".join(symbols) if "".join(symbols) == name else ""

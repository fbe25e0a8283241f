"""The tokens of a formula, and the operators that are missing between them."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from ..suggestion import product
from .syntax_tree import FUNCTIONS

# A size may have every unit that parse_size accepts or explains, except B: 2 B could mean two bytes
# or 2*B, because B is a symbol too.
_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<size>   [0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?[ \t\r\n]*[KMGTkmgt][Ii]?[Bb](?![A-Za-z0-9_]) )
    | (?P<number> [0-9]+(?:_[0-9]+)*(?:\.[0-9]+)? )
    | (?P<name>   [A-Za-z_][A-Za-z0-9_]* )
    | (?P<sign>   \*\* | // | [-+*/^(),] )
    | (?P<end>    \Z )
    | (?P<other>  . ) )""",
    re.VERBOSE | re.DOTALL,
)

_EXPONENT: Final = re.compile("[eE]([0-9]{1,2})?")
_OPERANDS: Final = ("number", "size", "name")


class Token(NamedTuple):
    """A number, a size, a name or a sign, or the end; columns count from 1."""

    kind: str
    text: str
    column: int


def tokens(text: str) -> Iterator[Token]:
    """Yields the tokens of *text* in order; a character that no formula has is ``other``."""
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        yield Token(kind, match[kind], match.start(kind) + 1)


def side_by_side(before: Token, token: Token) -> bool:
    """Returns True if an operator is missing between two operands: ``2 N``, ``2(N + 1)``."""
    ends = before.kind in _OPERANDS or before.text == ")"
    if before.kind == token.kind == "name" and not product(token.text):
        return False  # prose, or Python's: B if H else 1
    return ends and (token.kind in _OPERANDS or token.text == "(")


def with_products(text: str, found: Sequence[Token]) -> str:
    """Returns *text* with a ``*`` for each missing operator, and in names such as ``BHN``."""
    written, end = "", 0
    for before, token in pairwise([Token("sign", "", 1), *found]):
        start = token.column - 1
        call = before.text in FUNCTIONS and token.text == "("
        missing = side_by_side(before, token) and not call
        written += "*" if missing else text[end:start]
        written += product(token.text) or token.text
        end = start + len(token.text)
    return written.strip()


def without_exponent(number: Token, token: Token) -> str:
    """Returns the plain form of ``1e9``, which reads as a number and a name; nothing for others."""
    written = _EXPONENT.fullmatch(token.text)
    if number.kind != "number" or token.column != number.column + len(number.text) or not written:
        return ""
    plain = number.text.isdecimal() and written[1]
    return number.text + "0" * int(written[1]) if plain else "all of its digits"

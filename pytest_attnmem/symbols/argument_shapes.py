"""Shapes of arguments, as symbols and numbers: ``B H N 64``, ``int64: B N``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import BudgetError
from ..units import shown
from .names import ALIASES

_WRITTEN = re.compile(r"\s*(?:(?P<dtype>[a-z]+\d*)\s*:)?(?P<dims>[^:]*)")
_DIM = re.compile(r"[A-Za-z]\w*|[1-9]\d{0,9}")


@dataclass(frozen=True, slots=True)
class Argument:
    """The shape of a tensor argument of a function."""

    dims: tuple[str | int, ...]
    dtype: str = ""
    """The argument's own dtype; empty if it has the dtype of the other arguments."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """Returns the dimensions that are symbols."""
        return tuple(dim for dim in self.dims if isinstance(dim, str))


def parse_shapes(shapes: Sequence[Any]) -> tuple[Any, ...]:
    """Returns each text as an :class:`Argument`, and every other value unchanged.

    Raises:
        BudgetError: a text is not a shape, or no shape is given.
    """
    parsed = tuple(_parse(shape) if isinstance(shape, str) else shape for shape in shapes)
    if not any(isinstance(argument, Argument) for argument in parsed):
        raise BudgetError("each tensor argument needs a shape, such as 'B H N d' 'B H M d'")
    return parsed


def _parse(text: str) -> Argument:
    written = _WRITTEN.fullmatch(text)
    words = re.split(r"[\s,]+", written["dims"].strip()) if written else []
    odd = [word for word in words if not _DIM.fullmatch(word)]
    if odd or not words:
        raise BudgetError(
            f"cannot read shape {shown(text)}; a shape is symbols and numbers, 'B H N 64', with a"
            " dtype of its own before a colon where it needs one, 'int64: B N'"
        )
    dims = tuple(int(word) if word.isdecimal() else ALIASES.get(word, word) for word in words)
    return Argument(dims, (written["dtype"] or "") if written else "")

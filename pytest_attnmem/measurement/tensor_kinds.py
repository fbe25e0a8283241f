"""The tensors of a baseline's entry, as texts that stay the same when a program is edited.

A text has a tensor's shape in symbols, its dtype, and the operator, file, function and module that
made it, but not the line, which moves.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from math import prod
from typing import NamedTuple

from ..errors import FormulaError
from ..formulas.formula import parse_formula
from ..symbols.sizes import ITEMSIZES
from .held import Held
from .tensor_groups import ROLES, general

_WRITTEN = re.compile(r"(\d+) × (?:(\S+) \[([^]]*)\] (?:of (\d+) B )?|(\d+) B )(.+)")

#: Dtype, shape and bytes.
Form = tuple[str, tuple[int, ...], int]


class Kind(NamedTuple):
    """Tensors that a program makes in one way, of one shape."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    """The bytes of each tensor."""
    made: str
    """``softmax, attn.py in attention, blocks.*.attention``; or the tensor's role."""

    @property
    def form(self) -> Form:
        """Returns the kind without the code that made it."""
        return self[:3]


class Known(NamedTuple):
    """The tensors of an entry."""

    counts: Counter[Kind]
    dims: Mapping[Form, str]
    """The shape of each form as it is written: ``B, H, N, N``."""


def kind(held: Held) -> Kind:
    """Returns the kind of a tensor."""
    return Kind(held.dtype, held.shape, held.nbytes, _made(held))


def labels(held: Iterable[Held]) -> tuple[str, ...]:
    """Returns a text for each kind, the largest first: ``2 × float32 [B, H, N, N] softmax, …``."""
    counted, nbytes = Counter[str](), Counter[str]()
    for tensor in held:
        text = _label(tensor)
        counted[text] += 1
        nbytes[text] += tensor.nbytes
    return tuple(f"{counted[text]} × {text}" for text, _ in nbytes.most_common())


def kinds(texts: Iterable[str], symbols: Mapping[str, int]) -> Known | None:
    """Returns the tensors that the texts describe; ``None`` if a text cannot be read.

    Baselines of earlier versions list up to 16 tensors one by one, without counts.
    """
    found: Counter[Kind] = Counter()
    written_as: dict[Form, str] = {}
    for text in texts:
        written = _WRITTEN.fullmatch(text)
        if written is None:
            return None
        count, dtype, dims, each, scratch, made = written.groups()
        if scratch is not None:
            found[Kind("", (), int(scratch), made)] += int(count)
            continue
        shape = _shape(dims, symbols)
        nbytes = None if shape is None else _nbytes(dtype, shape, each)
        if shape is None or nbytes is None:
            return None
        one = Kind(dtype, shape, nbytes, made)
        found[one] += int(count)
        written_as[one.form] = dims
    return Known(found, written_as) if found else None


def _label(held: Held) -> str:
    made = _made(held)
    if not held.dtype:
        return f"{held.nbytes} B {made}"
    dims = ", ".join(held.dims or map(str, held.shape))
    usual = ITEMSIZES.get(held.dtype, 0) * prod(held.shape)
    each = "" if held.nbytes == usual else f"of {held.nbytes} B "
    return f"{held.dtype} [{dims}] {each}{made}"


def _made(held: Held) -> str:
    if held.role in ROLES:
        return held.role
    file = held.where.rpartition(":")[0]
    place = f"{file} in {held.function}" if held.function and file else file or held.function
    return ", ".join(filter(None, (held.op, place, general(held.module))))


def _shape(dims: str, symbols: Mapping[str, int]) -> tuple[int, ...] | None:
    try:
        sizes = [parse_formula(dim).value(symbols) for dim in dims.split(", ") if dim]
    except (FormulaError, ArithmeticError):
        return None
    if any(size.denominator != 1 for size in sizes):
        return None
    return tuple(int(size) for size in sizes)


def _nbytes(dtype: str, shape: tuple[int, ...], each: str | None) -> int | None:
    if each is not None:
        return int(each)
    return ITEMSIZES[dtype] * prod(shape) if dtype in ITEMSIZES else None

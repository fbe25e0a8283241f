"""The tensors that are more, or fewer, from one peak to another, by the line that made them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ..errors import AttnMemError
from ..formulas.polynomial import expand
from ..measurement.held import Held
from ..measurement.symbolic_shapes import product
from ..measurement.tensor_groups import ROLES, general
from ..units import excerpt, format_change


@dataclass(frozen=True, slots=True)
class HeldChange:
    """The tensors that one line makes in one way, at both peaks."""

    held: Held
    """One of them, of the newer peak if it has one."""
    old_count: int
    new_count: int
    delta: int
    """The bytes that they grew by."""


def held_changes(old: Iterable[Held], new: Iterable[Held]) -> list[HeldChange]:
    """Returns what changed: the largest growth first, then what is gone, the largest last.

    Tensors count as made by the same code if file, function, operator, dtype and shape are equal:
    an edit above a line changes its number.
    """
    found: dict[tuple[object, ...], tuple[list[Held], list[Held]]] = {}
    for side, tensors in enumerate((old, new)):
        for held in tensors:
            found.setdefault(_kind(held), ([], []))[side].append(held)
    changes = []
    for before, after in found.values():
        delta = sum(one.nbytes for one in after) - sum(one.nbytes for one in before)
        changes.append(HeldChange((after or before)[0], len(before), len(after), delta))
    return sorted((change for change in changes if change.delta), key=lambda one: -one.delta)


def _kind(held: Held) -> tuple[object, ...]:
    if held.role in ROLES:
        return (held.role,)
    file = held.where.rpartition(":")[0]
    shape = held.dims or held.shape if held.dtype else ()
    return (held.op, file, held.function, general(held.module), held.dtype, shape)


def lines(changes: Sequence[HeldChange], most: int) -> Iterator[str]:
    """Yields a line for each of the first changes, and one for the rest."""
    rows = [_cells(change) for change in changes[:most]]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    for size, tensor, where in rows:
        text = f"{size.rjust(widths[0])}  {tensor.ljust(widths[1])}  {where}"
        yield excerpt(text.rstrip(), 200)
    if rest := changes[most:]:
        total = sum(change.delta for change in rest)
        yield f"and {len(rest)} more, {format_change(total)} together"


def term(change: HeldChange) -> str:
    """Returns ``+4*B*H*N^2 masked_fill attn.py:14``; bytes where no symbol of a size is proved."""
    held = change.held
    words = [ROLES[held.role]] if held.role in ROLES else [held.op, held.where]
    return " ".join(filter(None, [_form(change) or format_change(change.delta), *words]))


def _form(change: HeldChange) -> str:
    held, count = change.held, change.new_count - change.old_count
    elements = prod(held.shape)
    if not product(held.dims) or not elements or held.nbytes % elements:
        return ""
    if change.delta != count * held.nbytes:
        return ""
    factors = [str(count * (held.nbytes // elements)), *(f"({dim})" for dim in held.dims)]
    try:
        form = str(expand("*".join(factors)))
    except (AttnMemError, ValueError):
        return ""
    return form if form.startswith("-") else f"+{form}"


def _cells(change: HeldChange) -> tuple[str, str, str]:
    held, count = change.held, change.new_count - change.old_count
    if held.role in ROLES:
        tensor, where = ROLES[held.role], ""
    else:
        meaning = product(held.dims)
        shape = f"[{', '.join(map(str, held.dims or held.shape))}] {held.dtype}"
        tensor = " ".join(filter(None, (shape if held.dtype else "", held.op)))
        where = " ".join(filter(None, (held.where, f"in {held.function}" if held.function else "")))
        where += f"  ← {meaning}" if meaning else ""
    number = f"{count:+} × " if abs(count) > 1 else ""
    return format_change(change.delta), f"{number}{tensor}", where


def to_dict(change: HeldChange) -> dict[str, Any]:
    """Returns the change as JSON values."""
    held = change.held
    return {
        "delta_bytes": change.delta,
        "old_count": change.old_count,
        "new_count": change.new_count,
        "shape": [*held.shape],
        "dims": [*held.dims],
        **{name: getattr(held, name) for name in ("dtype", "op", "where", "function", "role")},
    }

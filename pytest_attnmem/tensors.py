"""Tensors that are held, in words: a line each, their sizes in the symbols of the test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .measurement import Held
from .shape import DEFAULTS, SYMBOLS
from .units import format_size

#: A longer list says no more than its largest entries.
_SHOWN = 10


def lines(held: tuple[Held, ...], symbols: Mapping[str, int], moment: str) -> list[str]:
    """The largest of them, as they are at that ``moment``, under a line that counts them."""
    if not held:
        return []
    plural = "" if len(held) == 1 else "s"
    shown = held[:_SHOWN]
    rows = [
        (
            format_size(tensor.nbytes),
            f"{list(tensor.shape)} {tensor.dtype}" if tensor.dtype else "",
            tensor.op,
            tensor.where,
            f"in {tensor.function}" if tensor.function else "",
            dimensions(tensor.shape, symbols),
        )
        for tensor in shown
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = [f"  held at the {moment} ({len(held)} tensor{plural}):"]
    for row in rows:
        cells = [row[0].rjust(widths[0])]
        cells += [cell.ljust(width) for cell, width in zip(row[1:5], widths[1:], strict=True)]
        meaning = f"  ← {row[5]}" if row[5] else ""
        lines.append(("    " + "  ".join(cells) + meaning).rstrip())
    if len(held) > _SHOWN:
        rest = sum(tensor.nbytes for tensor in held[_SHOWN:])
        lines.append(f"    and {len(held) - _SHOWN} more, {format_size(rest)} together")
    return lines


def dimensions(shape: Iterable[int], symbols: Mapping[str, int]) -> str:
    """``B·H·N·N`` for [1, 8, 2048, 2048]; empty when a size is none of the symbols'.

    Sizes are read left to right and symbols come in their usual order, so that the batch is not
    taken for the heads where both are 1. A 1 that is no symbol's turn is a 1.
    """
    order = [
        name
        for name in SYMBOLS
        if name in symbols
        and name != "itemsize"
        and symbols[name] != symbols.get(DEFAULTS.get(name, ""))
    ]
    sizes = [*shape]
    names: list[str] = []
    start = 0
    for heads in ("H", "Hkv"):  # a batched matrix product has them in one with the batch
        both = (symbols.get("B", 1), symbols.get(heads, 1))
        if not names and len(sizes) == 3 and min(both) > 1 and sizes[0] == both[0] * both[1]:
            names += ["B", heads]
            start = order.index(heads) + 1
            del sizes[0]
    for size in sizes:
        matching = [place for place, name in enumerate(order) if symbols[name] == size]
        coming = [place for place in matching if place >= start]
        if size == 1 and not coming:
            names.append("1")
            continue
        if not matching:
            return ""
        place = coming[0] if coming else matching[-1]
        names.append(order[place])
        start = place + 1
    return "·".join(names) if set(names) != {"1"} else ""

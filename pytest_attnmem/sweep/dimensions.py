"""The dimensions of tensors as symbols, in a case whose sizes are all known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..measurement.held import Held
from ..symbols.names import DEFAULTS, SYMBOLS


def with_dimensions(held: Held, symbols: Mapping[str, int]) -> Held:
    """Returns the tensor with its dimensions, unless a size of it belongs to two symbols."""
    sized = {name: size for name, size in symbols.items() if size != 1 and name in _SIZES}
    own = {
        name: size for name, size in sized.items() if size != symbols.get(DEFAULTS.get(name, ""))
    }
    shared = {size for size in own.values() if [*own.values()].count(size) > 1}
    if shared.intersection(held.shape):
        return held
    return replace(held, dims=dimensions(held.shape, sized))


def dimensions(shape: Iterable[int], symbols: Mapping[str, int]) -> tuple[str, ...]:
    """Returns the symbol of each size, as ``("B", "H", "N", "N")`` for [1, 8, 2048, 2048].

    Sizes are read left to right and symbols come in their usual order, so that the batch is not
    mistaken for the heads if both are 1. A size of 1 stays a 1 if no symbol of size 1 comes next.
    Returns nothing if a size is not the size of any symbol.
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
    for heads in ("H", "Hkv"):  # a batched matrix product merges the heads with the batch
        both = (symbols.get("B", 1), symbols.get(heads, 1))
        if not names and len(sizes) == 3 and min(both) > 1 and sizes[0] == both[0] * both[1]:
            names += ["B", heads]
            start = order.index(heads) + 1
            del sizes[0]
    for size in sizes:
        matching = [place for place, name in enumerate(order) if symbols[name] == size]
        ahead = [place for place in matching if place >= start]
        if size == 1 and not ahead:
            names.append("1")
            continue
        if not matching:
            return ()
        place = ahead[0] if ahead else matching[-1]
        names.append(order[place])
        start = place + 1
    return tuple(names) if set(names) != {"1"} else ()


_SIZES = frozenset(SYMBOLS) - {"itemsize"}

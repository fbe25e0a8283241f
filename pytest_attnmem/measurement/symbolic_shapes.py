"""The shapes of tensors in the symbols of a test, proved by runs at other sizes.

A size of 256 is N only if another run, where N is 128, has the size 128 there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from ..formulas.polynomial import Monomial, Polynomial
from .held import Held
from .measurement import Measurement
from .traced_tensors import TracedTensors

#: The powers of a symbol that are tried in one dimension: N·N after a reshape.
_POWERS = (0, 1, 2)

_NumberedShape = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A run of the same program where one symbol has another size."""

    symbol: str
    size: int
    tensors: TracedTensors


def proved(own: Measurement, sizes: Mapping[str, int], others: Sequence[Elsewhere]) -> Measurement:
    """Returns the measurement with the dimensions of its tensors, where they are proved."""
    tensors = own.tensors
    if tensors is None or not others:
        return own
    dims = _dimensions(tensors, {*tensors.at_peak, *tensors.at_end}, sizes, others)

    def with_dims(held: Sequence[Held], numbers: Sequence[int]) -> tuple[Held, ...]:
        pairs = zip(held, numbers, strict=True)
        return tuple(replace(one, dims=dims.get(number, ())) for one, number in pairs)

    held, left = with_dims(own.held, tensors.at_peak), with_dims(own.left, tensors.at_end)
    return replace(own, held=held, left=left)


def product(dims: Sequence[str]) -> str:
    """Returns the dimensions as one product, ``B·H·N·N``; empty if no symbol is in it."""
    if all(dim.isdecimal() for dim in dims):
        return ""
    factors = (f"({dim})" if " " in dim else dim.replace("*", "·") for dim in dims)
    return "·".join(factor for factor in factors if factor != "1")


def _dimensions(
    own: TracedTensors,
    wanted: Collection[int],
    sizes: Mapping[str, int],
    others: Sequence[Elsewhere],
) -> dict[int, tuple[str, ...]]:
    """Returns the proved dimensions of the wanted tensors, by the numbers of their allocations."""
    shapes = {n: held.shape for n, held in own.allocated if held.dtype and n in wanted}
    partners = [(other, _partners(own, other.tensors)) for other in others]
    found = {}
    for number, shape in shapes.items():
        if all(number in paired for _, paired in partners):
            there = [(other, paired[number]) for other, paired in partners]
            dims = [
                _dimension(
                    size, sizes, [(run.symbol, run.size, shape[axis]) for run, shape in there]
                )
                for axis, size in enumerate(shape)
            ]
            if None not in dims:
                found[number] = tuple(str(dim) for dim in dims)
    return found


def _partners(own: TracedTensors, other: TracedTensors) -> dict[int, tuple[int, ...]]:
    """Returns the shape that each tensor has in the other run, by its number in this one.

    Tensors that a line makes in the same way are paired in their order. If the runs make different
    numbers of them, as in a loop over blocks, all tensors of a run must have one shape.
    """
    own_tensors, other_tensors = _alike(own), _alike(other)
    paired: dict[int, tuple[int, ...]] = {}
    for kind, tensors in own_tensors.items():
        shapes = [shape for _, shape in other_tensors.get(kind, ())]
        uniform = len({shape for _, shape in tensors}) == len({*shapes}) == 1
        if len(shapes) != len(tensors) and uniform:
            shapes = shapes[:1] * len(tensors)
        if len(shapes) == len(tensors):
            numbers = (number for number, _ in tensors)
            paired |= dict(zip(numbers, shapes, strict=True))
    return paired


def _alike(tensors: TracedTensors) -> Mapping[tuple[object, ...], list[_NumberedShape]]:
    """Returns the tensors by the code that made them, in their order."""
    made: dict[tuple[object, ...], list[_NumberedShape]] = defaultdict(list)
    for number, held in tensors.allocated:
        kind = (held.op, held.where, held.function, held.module, held.dtype, len(held.shape))
        made[kind].append((number, held.shape))
    return made


def _dimension(
    size: int, sizes: Mapping[str, int], others: Sequence[tuple[str, int, int]]
) -> Polynomial | None:
    """Returns the product of symbols that equals a size in all runs, or a symbol and a number.

    ``others`` are the other runs: the symbol, its size there, and this dimension's size there.
    """
    monomial: Monomial = ()
    factor = Fraction(size)
    for symbol, other, there in others:
        own = sizes[symbol]
        power = next((p for p in _POWERS if there * own**p == size * other**p), None)
        if power is None:
            return _shifted(size, sizes, others)
        if power:
            monomial = (*monomial, (symbol, power))
            factor /= own**power
    return Polynomial({tuple(sorted(monomial)): factor}) if size else Polynomial({})


def _shifted(
    size: int, sizes: Mapping[str, int], others: Sequence[tuple[str, int, int]]
) -> Polynomial | None:
    """Returns ``N + 1`` if only one symbol changes a size, by as much as the symbol changes."""
    changed = [(symbol, other, there) for symbol, other, there in others if there != size]
    if len(changed) != 1:
        return None
    ((symbol, other, there),) = changed
    if there - size != other - sizes[symbol]:
        return None
    return Polynomial.atom(symbol) + Polynomial.constant(size - sizes[symbol])

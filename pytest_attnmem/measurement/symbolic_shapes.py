"""The shapes of tensors in the symbols of a test, proved by runs at other sizes.

A size of 256 is not N because N is 256: another run, where N is 128, must make it 128.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from ..formulas.polynomial import Monomial, Polynomial
from .allocations import Lives
from .held import Held
from .measurement import Measurement

#: The powers of a symbol that one dimension is tried for: N·N in one, after a reshape.
_POWERS = (0, 1, 2)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The same program where one symbol has another size."""

    symbol: str
    size: int
    lives: Lives


def proved(own: Measurement, sizes: Mapping[str, int], others: Sequence[Elsewhere]) -> Measurement:
    """Returns the measurement with the dimensions of its tensors, where they are proved."""
    if own.lives is None or not others:
        return own
    dims = _dimensions(own.lives, sizes, others)

    def told(held: Sequence[Held], numbers: Sequence[int]) -> tuple[Held, ...]:
        pairs = zip(held, numbers, strict=True)
        return tuple(replace(one, dims=dims.get(number, ())) for one, number in pairs)

    return replace(own, held=told(own.held, own.lives.held), left=told(own.left, own.lives.left))


def product(dims: Sequence[str]) -> str:
    """Returns the dimensions as one product, ``B·H·N·N``; empty if no symbol is in it."""
    if all(dim.isdecimal() for dim in dims):
        return ""
    factors = (f"({dim})" if " " in dim else dim.replace("*", "·") for dim in dims)
    return "·".join(factor for factor in factors if factor != "1")


def _dimensions(
    own: Lives, sizes: Mapping[str, int], others: Sequence[Elsewhere]
) -> dict[int, tuple[str, ...]]:
    """Returns the dimensions that are proved, by the number of the tensor's allocation."""
    shapes = {number: held.shape for number, held in own.births if held.dtype}
    partners = [(other, _partners(own, other.lives)) for other in others]
    found = {}
    for number, shape in shapes.items():
        if all(number in paired for _, paired in partners):
            there = [(other, paired[number]) for other, paired in partners]
            dims = [
                _dimension(
                    size, sizes, [(other.symbol, other.size, seen[at]) for other, seen in there]
                )
                for at, size in enumerate(shape)
            ]
            if None not in dims:
                found[number] = tuple(str(dim) for dim in dims)
    return found


def _partners(own: Lives, other: Lives) -> dict[int, tuple[int, ...]]:
    """Returns the shape that each tensor has in the other run, by its number in the own one.

    Tensors that the same line makes in the same way come in the same order. Where there are not
    as many of them, as in a loop over blocks, all of one run must be of one shape.
    """
    here, there = _alike(own), _alike(other)
    paired: dict[int, tuple[int, ...]] = {}
    for kind, tensors in here.items():
        shapes = [shape for _, shape in there.get(kind, ())]
        uniform = len({shape for _, shape in tensors}) == len({*shapes}) == 1
        if len(shapes) != len(tensors) and uniform:
            shapes = shapes[:1] * len(tensors)
        if len(shapes) == len(tensors):
            numbers = (number for number, _ in tensors)
            paired |= dict(zip(numbers, shapes, strict=True))
    return paired


def _alike(lives: Lives) -> Mapping[tuple[object, ...], list[tuple[int, tuple[int, ...]]]]:
    """Returns the tensors by what made them, in their order."""
    made: dict[tuple[object, ...], list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
    for number, held in lives.births:
        kind = (held.op, held.where, held.function, held.module, held.dtype, len(held.shape))
        made[kind].append((number, held.shape))
    return made


def _dimension(
    size: int, sizes: Mapping[str, int], seen: Sequence[tuple[str, int, int]]
) -> Polynomial | None:
    """Returns the product of symbols that a size is at all points, or a symbol and a number."""
    monomial: Monomial = ()
    factor = Fraction(size)
    for symbol, other, there in seen:
        own = sizes[symbol]
        power = next((p for p in _POWERS if there * own**p == size * other**p), None)
        if power is None:
            return _shifted(size, sizes, seen)
        if power:
            monomial = (*monomial, (symbol, power))
            factor /= own**power
    return Polynomial({tuple(sorted(monomial)): factor}) if size else Polynomial({})


def _shifted(
    size: int, sizes: Mapping[str, int], seen: Sequence[tuple[str, int, int]]
) -> Polynomial | None:
    """Returns ``N + 1``, where one symbol alone matters, and that by as much as it changes."""
    changed = [(symbol, other, there) for symbol, other, there in seen if there != size]
    if len(changed) != 1:
        return None
    ((symbol, other, there),) = changed
    if there - size != other - sizes[symbol]:
        return None
    return Polynomial.atom(symbol) + Polynomial.constant(size - sizes[symbol])

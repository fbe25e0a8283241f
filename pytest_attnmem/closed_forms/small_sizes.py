"""The sizes for which a closed form holds: sizes of 1 and odd sizes are run, or refused.

PyTorch has shortcuts for dimensions of 1, such as a view where a larger size needs a copy, and
kernels pad lengths, so that a form of other sizes may be too large, or too small, there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import gcd

from ..errors import AttnMemError
from ..formulas.envelope import envelope
from ..formulas.multivariate_fit import Sample
from ..formulas.polynomial import Polynomial
from .derived import Derived

#: The most symbols whose sizes of 1 are tried in each combination; of more, only in pairs and all.
_EACH = 4
#: The steps that kernels pad sizes to, and the steps of blocks.
_STEPS = (1, 2, 4, 8, 16, 32, 64)


Peak = Callable[[Mapping[str, int]], int]


def with_sizes(found: Derived, where: Sample, peak: Peak) -> Derived:
    """Returns the form with the sizes for which it holds; ``peak`` runs the program at sizes."""
    least = _least(found, where, peak)
    return replace(found, least=least, steps=_steps(found, where, peak))


def _steps(found: Derived, where: Sample, peak: Peak) -> dict[str, int]:
    """Returns the steps of the symbols for which the form does not hold at every size."""
    base, steps = where.named(where.base), {}
    for place, (name, axis) in enumerate(zip(where.symbols, where.axes, strict=True)):
        shared = gcd(*(point[place] for point in axis))
        tried = [step for step in _STEPS if step < shared and not shared % step]
        for step in tried:
            if _holds(found, peak, {**base, name: base[name] + step}):
                shared = step
                break
        if shared > 1 and tried:
            steps[name] = shared
    return steps


def _holds(found: Derived, peak: Peak, at: Mapping[str, int]) -> bool:
    try:
        return found.value(at) == peak(at)
    except AttnMemError:  # the program does not take the size
        return False


def _least(found: Derived, where: Sample, peak: Peak) -> dict[str, int]:
    """Returns the smallest sizes for which the form holds, of the symbols where it is not 1.

    A form that was interpolated has to hold at sizes of 2 together too; else it holds from the
    smallest sizes that were tried.
    """
    base = where.named(where.base)
    smallest = {
        name: min(point[place] for point in axis)
        for place, (name, axis) in enumerate(zip(where.symbols, where.axes, strict=True))
    }

    def holds(changed: Mapping[str, int]) -> bool:
        return _holds(found, peak, {**base, **changed})

    symbols = [name for name in where.symbols if smallest[name] > 1]
    twos = {name: 2 for name in symbols if smallest[name] > 2}
    if found.how != "derived" and not all(map(holds, [*({name: 2} for name in twos), twos])):
        return {name: smallest[name] for name in symbols}
    free = [name for name in symbols if holds({name: 1}) and _same(found.bounds, {name: 1})]
    together = _same(found.bounds, dict.fromkeys(free, 1))
    if not together or not all(holds(dict.fromkeys(names, 1)) for names in _subsets(free)):
        return dict.fromkeys(symbols, 2)
    return {name: 2 for name in symbols if name not in free}


def _same(bounds: Sequence[Polynomial], least: Mapping[str, int]) -> bool:
    """Returns True if no other live set may be the largest at the smaller sizes."""
    return len(envelope(bounds, least)) == len(envelope(bounds, {}))


def _subsets(symbols: list[str]) -> Iterator[tuple[str, ...]]:
    counts = range(2, len(symbols) + 1) if len(symbols) <= _EACH else (2, len(symbols))
    for count in counts:
        yield from combinations(symbols, count)

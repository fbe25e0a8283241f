"""The sizes for which a closed form holds: small, odd and large sizes are run, or refused.

PyTorch has shortcuts for dimensions of 1, such as a view where a larger size needs a copy, kernels
pad lengths, and code may take another way from some size on, so that a form of other sizes may be
too large, or too small, there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import gcd

from ..errors import AttnMemError
from ..formulas.envelope import envelope
from ..formulas.interpolation import Sample
from ..formulas.polynomial import Polynomial
from .derived import Derived
from .live_sets import Program, peak

#: The most symbols whose sizes of 1 are tried in each combination; of more, only in pairs and all.
_EACH = 4
#: The steps that kernels pad sizes to, and the steps of blocks.
_STEPS = (1, 2, 4, 8, 16, 32, 64)
#: Each larger size that is tried is so many times the one before, up to _LARGEST.
_RISE = 8
_LARGEST = 1 << 17
#: The most events of a run at a larger size, for code that loops over blocks.
_MOST_EVENTS = 20_000

_Axes = Mapping[str, Sequence[int]]
"""The sizes of each symbol at which the program ran."""


@dataclass(frozen=True, slots=True)
class _Trials:
    """Runs of the program where some symbols have other sizes than the base."""

    found: Derived
    program: Program
    base: Mapping[str, int]

    def differs(self, sizes: Mapping[str, int]) -> bool | None:
        """Returns True if the program's peak is not the form's at these sizes.

        Returns None if the program does not take the sizes.
        """
        at = {**self.base, **sizes}
        try:
            return self.found.value(at) != peak(self.program(at))
        except AttnMemError:
            return None

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Returns True if the program takes the sizes, and the form is its peak."""
        return self.differs(sizes) is False

    def turn(self, name: str, wrong: int, right: int, step: int) -> int:
        """Returns the size nearest to ``wrong`` from which on the form holds up to ``right``."""
        while abs(right - wrong) > step:
            middle = min(wrong, right) + abs(right - wrong) // (2 * step) * step
            if self.differs({name: middle}):
                wrong = middle
            else:
                right = middle
        return right


def with_sizes(found: Derived, where: Sample, program: Program) -> Derived:
    """Returns the form with the sizes for which it holds."""
    trials = _Trials(found, program, where.named(where.base))
    axes = {
        name: [point[place] for point in points]
        for place, (name, points) in enumerate(zip(where.symbols, where.axes, strict=True))
    }
    least, most = _least(trials, axes), _most(trials, axes)
    return replace(found, least=least, most=most, steps=_steps(trials, axes))


def _steps(trials: _Trials, axes: _Axes) -> dict[str, int]:
    """Returns the steps of the symbols for which the form does not hold at every size."""
    steps = {}
    for name, axis in axes.items():
        shared = gcd(*axis)
        tried = [step for step in _STEPS if step < shared and not shared % step]
        for step in tried:
            if trials.holds({name: trials.base[name] + step}):
                shared = step
                break
        if shared > 1 and tried:
            steps[name] = shared
    return steps


def _least(trials: _Trials, axes: _Axes) -> dict[str, int]:
    """Returns the smallest sizes for which the form holds, of the symbols where it is not 1.

    A form that was interpolated has to hold at sizes of 2 together too; else it holds from the
    smallest sizes that were tried.
    """
    bounds, holds = trials.found.bounds, trials.holds
    derived = trials.found.how == "derived"
    smallest = {name: min(axis) for name, axis in axes.items() if min(axis) > 1}
    twos = {name: 2 for name, size in smallest.items() if size > 2}
    if not derived and not all(map(holds, [*({name: 2} for name in twos), twos])):
        return smallest
    free = [name for name in smallest if holds({name: 1}) and _same(bounds, {name: 1})]
    together = _same(bounds, dict.fromkeys(free, 1))
    if not together or not all(holds(dict.fromkeys(names, 1)) for names in _subsets(free)):
        return dict.fromkeys(smallest, 2)
    least = dict.fromkeys((name for name in smallest if name not in free), 2)
    for name in least.keys() & twos.keys():
        if trials.differs({name: 2}):
            least[name] = trials.turn(name, 2, smallest[name], 1)
    return least


def _most(trials: _Trials, axes: _Axes) -> dict[str, int]:
    """Returns the largest sizes for which the form holds, of the symbols that have one."""
    ends = {name: _end(trials, name, axis) for name, axis in axes.items()}
    most = {name: end for name, (end, differs) in ends.items() if differs}
    together = {name: min(end, _RISE * max(axes[name])) for name, (end, _) in ends.items()}
    if trials.differs(together):  # such as a branch on a product
        return {name: max(axis) for name, axis in axes.items()}
    return most


def _end(trials: _Trials, name: str, axis: Sequence[int]) -> tuple[int, bool]:
    """Returns the largest size for which the form was seen to hold, and if it ends there."""
    size, step = max(axis), gcd(*axis)
    few, events = (len(trials.program({**trials.base, name: at})) for at in (min(axis), size))
    while size * _RISE <= _LARGEST and (events == few or events * _RISE**2 <= _MOST_EVENTS):
        differs = trials.differs({name: size * _RISE})
        if differs:
            return trials.turn(name, size * _RISE, size, step), True
        if differs is None:
            break
        size *= _RISE
    return size, False


def _same(bounds: Sequence[Polynomial], least: Mapping[str, int]) -> bool:
    """Returns True if no other live set may be the largest at the smaller sizes."""
    return len(envelope(bounds, least)) == len(envelope(bounds, {}))


def _subsets(symbols: list[str]) -> Iterator[tuple[str, ...]]:
    counts = range(2, len(symbols) + 1) if len(symbols) <= _EACH else (2, len(symbols))
    for count in counts:
        yield from combinations(symbols, count)

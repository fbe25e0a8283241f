"""The memory of one rank in worlds of several sizes, judged by a contract such as ``O(1/W)``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..formulas.interpolation import shared
from ..formulas.polynomial import Polynomial
from ..symbols.names import WORLD
from ..units import format_size
from .growth_contract import Contract
from .growth_fit import Growth
from .growth_judgement import Answer, Judgement, place
from .growth_over_formula import Bytes, Judge, Sizes, outgrown

#: A world is measured, and worlds so many times as large: a number that divides into the parts of
#: the smallest world's ranks divides into theirs too, if it is a larger power of two.
FACTORS = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True, repr=False)
class WorldGrowth(Growth):
    """Peaks of one rank over the number of ranks ``W``, and the exact fit ``a/W + b + c*W``."""

    @property
    def polynomial(self) -> Polynomial | None:
        """The fit through every point, if it has points to spare; else None."""
        (sizes,) = self.sizes.values()
        return shared(WORLD, sizes, [self.peaks[size,] for size in sizes])

    @property
    def settled(self) -> WorldGrowth:
        """The growth itself: a rank's share may have shrunk to nothing in the largest worlds."""
        return self

    def judge(self, contract: Contract) -> Judgement:
        """Returns the worst answer for the metric and the tensors beneath it; unknown if no fit."""
        if (over := self._judge_over(contract)) is not None:
            return over
        (sizes,) = self.sizes.values()
        judged = _judge(sizes, [self.peaks[at,] for at in sizes], contract, self.metric)
        if judged.answer is not Answer.KEPT or self.beneath is None:
            return judged
        below = [
            replace(_judge(sizes, part.values, contract, place(part.held)), held=part.held)
            for part in self.beneath.parts
        ]
        worst = min(below, key=lambda one: one.answer, default=judged)
        return judged if worst.answer is Answer.KEPT else worst

    def _judged_by(self, contract: Contract) -> Judge:
        def judged(sizes: Sizes, values: Bytes, what: str) -> Judgement:
            (worlds,) = sizes.values()
            return _judge(worlds, [values[at,] for at in worlds], contract, what)

        return judged


def _judge(sizes: Sequence[int], values: Sequence[int], contract: Contract, what: str) -> Judgement:
    fit = shared(WORLD, sizes, values)
    if fit is None:
        pairs = zip(sizes, values, strict=True)
        points = ", ".join(f"{format_size(value)} at {size}" for size, value in pairs)
        return Judgement(
            Answer.UNKNOWN,
            f"{what} is not a/{WORLD} + b + c*{WORLD}: {points}; ranks have unequal parts, or"
            f" other tensors at the peak; take sizes that {WORLD} divides",
        )
    broken = contract.broken_by(fit, (WORLD,))
    terms = tuple(str(Polynomial({monomial: fit.terms[monomial]})) for monomial in broken)
    answer = outgrown(fit, contract, (WORLD,))
    if terms and answer is not Answer.BROKEN:  # less the bytes of a formula
        return Judgement(answer, f"{what} is {fit}, and negative terms may outgrow it")
    return Judgement(answer, f"{what} grows as {fit}", terms, "" if terms else f"{what} is {fit}")

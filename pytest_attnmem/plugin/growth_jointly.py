"""The bytes over a formula in all symbols of its contract together: ``P/W*18 + O(N*d)``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..budgets.growth_contract import Contract
from ..budgets.growth_fit import Growth, WorldGrowth
from ..budgets.growth_judgement import Answer, Judgement, judge_line, place
from ..budgets.growth_over_formula import (
    Allowed,
    around,
    constant,
    judge_difference,
    judge_fixed,
    outgrown,
)
from ..errors import AttnMemError
from ..formulas.interpolation import Point, Sample, fit, line, off_axes, shared
from ..formulas.polynomial import Polynomial
from ..measurement.below_peak import PartBelowPeak, beneath_at, together
from ..symbols.names import WORLD
from .growth_runs import GrowthRuns, Run

#: More runs beside the lines take too long.
_MOST = 64


def judged_jointly(
    runs: GrowthRuns, contract: Contract, lines: Mapping[str, Growth], grids: Sequence[Growth]
) -> Judgement | None:
    """Returns the answer for the bytes over the formula, in all symbols of the contract together.

    None if there is no formula, or if a growth along one symbol breaks the contract. Lines do not
    tell which bytes no symbol changes: to a line, those that the others change are constant too.
    And a formula that outgrows the contract may be right at the test's own sizes only: under
    ``8*N^2 + O(B*N)``, 8*B*N^2 bytes are within it if B is 1.

    Raises:
        Unclear: the memory of a run is not known.
    """
    named = {s: growth for s, growth in lines.items() if contract.degree(s) > 0}
    if not runs.has_formula or not named:
        return None
    if any(growth.judge(contract).answer is Answer.BROKEN for growth in (*lines.values(), *grids)):
        return None
    over = runs.own.nbytes - runs.own.formula
    alone = [_fixed(symbol, growth, runs.sweep.size(symbol)) for symbol, growth in named.items()]
    known = contract.allows_constant or any(one is not None and one <= 0 for one in alone)
    fixed = 0 if known or over <= 0 else alone[0]
    if len(named) > 1:
        outgrows = any(_outgrown(growth, contract) for growth in named.values())
        if outgrows or not (known or over <= 0):
            joint = _Jointly(runs, contract, named)
            if outgrows and (judged := joint.judge()) is not None:
                return judged
            fixed = fixed if known or over <= 0 else joint.fixed
    sizes = {**runs.values, **{symbol: runs.sweep.size(symbol) for symbol in named}}
    if fixed is None:  # at no size are they more than all bytes over the formula
        least = min(growth.over(at) for growth in named.values() for at in growth.peaks)
        fixed = least if least <= contract.at(sizes) else None
    return judge_fixed(fixed, over, runs.metric, [*named], Allowed(contract, sizes))


def _fixed(symbol: str, growth: Growth, own: int) -> int | None:
    """Returns the bytes over the formula that one symbol does not change; None if not known."""
    (sizes,) = growth.sizes.values()
    found = around(symbol, sizes, [growth.over((size,)) for size in sizes], own)
    return None if found is None else constant(found[1])


def _outgrown(growth: Growth, contract: Contract) -> bool:
    """Returns True if the formula does not keep the contract that is added to it."""
    known = {at: growth.formula_bytes[at] for at in growth.peaks}
    return judge_difference(growth.sizes, known, contract, "").answer is not Answer.KEPT


def _near(sizes: Sequence[int], own: int, terms: int) -> Sequence[int]:
    """Returns the sizes to combine: up to *own* if they are enough, or else the smallest.

    Where no memory is needed, lines go up to 64 times the test's size; that of every symbol
    together would exceed the device.
    """
    below = [size for size in sizes if size <= own]
    return below if len(below) > terms else sizes[: max(terms + 2, sizes.index(own) + 1)]


def fixed_over_worlds(
    growth: WorldGrowth, contract: Contract, values: Mapping[str, int]
) -> Judgement | None:
    """Returns the answer for the bytes over the formula that the number of ranks does not change.

    A contract that divides by it has none of them: the fit has decided. *values* are those of all
    other symbols.
    """
    if not growth.formula_bytes or contract.degree(WORLD) <= 0:
        return None
    (worlds,) = growth.sizes.values()
    over = [growth.over((world,)) for world in worlds]
    form = shared(WORLD, worlds, over)
    fixed = 0 if contract.allows_constant else None if form is None else constant(form)
    allowed = Allowed(contract, {**values, WORLD: worlds[0]})
    return judge_fixed(fixed, over[0], growth.metric, [WORLD], allowed)


class _Jointly:
    """Runs that differ in several symbols, and the forms through them: of peaks, and the formula.

    A peak has no negative terms, so every product of symbols that it has shows on its lines.
    """

    def __init__(self, runs: GrowthRuns, contract: Contract, lines: Mapping[str, Growth]) -> None:
        self._runs = runs
        self._contract = contract
        self._symbols = [*lines]
        self._points: dict[Point, Run] = {}
        self._where: Sample | None = None
        own = tuple(runs.sweep.size(symbol) for symbol in lines)
        sizes: list[Sequence[int]] = []
        near: list[Sequence[int]] = []
        terms = []
        for symbol, growth in lines.items():
            (axis,) = growth.sizes.values()
            found = around(symbol, axis, [growth.peaks[n,] for n in axis], runs.sweep.size(symbol))
            formula = found and line(symbol, found[0], [growth.formula_bytes[n,] for n in found[0]])
            if found is None or formula is None:
                return
            sizes.append(found[0])
            terms.append(max(len(found[1].terms), len(formula.terms), 1))
            near.append(_near(found[0], runs.sweep.size(symbol), terms[-1]))
        beside = off_axes(own, near, terms)
        if len(beside) > _MOST:
            return
        axes = tuple(
            tuple((*own[:at], size, *own[at + 1 :]) for size in axis)
            for at, axis in enumerate(sizes)
        )
        for at, (along, growth) in enumerate(zip(axes, lines.values(), strict=True)):
            for point in along:
                size = (point[at],)
                self._points[point] = Run(growth.peaks[size], 0, growth.formula_bytes[size])
        try:
            for apart in beside:
                self._points[apart] = runs.run(dict(zip(lines, apart, strict=True)))
        except AttnMemError:  # a line of sizes may be possible where a combination is not
            return
        self._where = Sample(tuple(lines), own, axes, beside)

    @property
    def fixed(self) -> int | None:
        """The bytes over the formula that no symbol changes; None if the runs do not tell."""
        form = self._over({at: run.nbytes for at, run in self._points.items()})
        return None if form is None else constant(form)

    def judge(self) -> Judgement | None:
        """Returns the answer if the contract is not kept; None if it is."""
        what = f"{self._runs.metric} over the formula"
        judged = self._judge({at: run.nbytes for at, run in self._points.items()}, what)
        if judged is not None or self._where is None:
            return judged
        points = self._where.points
        runs = {at: self._points[at] for at in points}
        try:
            traced = self._runs.traced(self._symbols, runs)
        except AttnMemError:
            return None
        peaks = {at: run.nbytes for at, run in runs.items()}
        parts = beneath_at(points, traced, peaks, self._runs.metric) or ()
        fast = [part for part in parts if self._outgrows(part, points)]
        if not fast:
            return None
        values = together(fast, at_end=self._runs.metric == "retained")
        more = f" with {len(fast) - 1} more" if len(fast) > 1 else ""
        what = f"{place(fast[0].held)}{more}, beneath the {self._runs.metric}, over the formula"
        return self._judge(dict(zip(points, values, strict=True)), what)

    def _outgrows(self, part: PartBelowPeak, points: Sequence[Point]) -> bool:
        """Returns True if a part does not keep the contract along a symbol, or with others."""
        values = dict(zip(points, part.values, strict=True))
        if self._where is None or not self._contract.allows_all(self._symbols):
            return True
        return any(
            judge_line(
                symbol, [p[at] for p in axis], [values[p] for p in axis], self._contract, ""
            ).answer
            is not Answer.KEPT
            for at, (symbol, axis) in enumerate(zip(self._symbols, self._where.axes, strict=True))
        )

    def _judge(self, values: Mapping[Point, int], what: str) -> Judgement | None:
        form = self._over(values)
        together = " and ".join(self._symbols)
        if form is None:
            unclear = f"sizes cannot tell how {what} grows with {together} together"
            return Judgement(Answer.UNKNOWN, unclear)
        answer = outgrown(form, self._contract, self._symbols)
        return None if answer is Answer.KEPT else Judgement(answer, f"{what} grows as {form}")

    def _over(self, values: Mapping[Point, int]) -> Polynomial | None:
        """Returns the form of bytes, less that of the formula; None if the runs show none."""
        if self._where is None:
            return None
        form = fit(self._where, values)
        formula = fit(self._where, {at: run.formula for at, run in self._points.items()})
        return None if form is None or formula is None else form - formula

"""The growth of a test in each of its symbols, from runs at other sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import combinations, product
from typing import TYPE_CHECKING

from ..budgets.budget import Budget
from ..budgets.growth_contract import Contract
from ..budgets.growth_fit import Growth, GrowthFindings
from ..budgets.growth_judgement import Answer, Judgement
from ..errors import AttnMemError
from ..measurement.measurement import Measurement
from ..symbols.names import WORLD
from ..units import format_size
from .growth_corners import judged_in_corners
from .growth_jointly import fixed_over_worlds, judged_jointly
from .growth_line import GrowthLine
from .growth_runs import GrowthRuns, Unclear, Unsettled
from .item_arguments import Variable, further_sizes, variable, varies
from .left_behind import left_by
from .settled_runs import settle
from .size_sweep import SizeSweep
from .world_runs import names_world, over_worlds, undivided

if TYPE_CHECKING:
    import pytest

    from ..api.attnmem import AttnMem
    from ..backends.primed_backend import PrimedBackend


class GrowthCheck:
    """Runs a test at other sizes, to find out how its memory grows."""

    def __init__(self, item: pytest.Item, memory: AttnMem, primed: PrimedBackend) -> None:
        self._item = item
        self._memory = memory
        self._primed = primed
        self._settled = False
        """True if each size is measured after one more run, which fills caches."""

    def findings(self, budget: Budget, own: Measurement) -> GrowthFindings:
        """Returns the growth of a budget's metric along each symbol, at sizes that decide it.

        *own* is measured at the test's own sizes. No growth is returned if the runs do not show
        how memory grows.

        Raises:
            AttnMemError: the test does not run at other sizes of any symbol of the contract.
        """
        contract = budget.contract
        if contract is None:
            return GrowthFindings()
        retains = budget.metric != "retained" and own.retained_bytes
        if retains and (left := self._left_by_each_run(own)):
            return GrowthFindings(jointly=left)
        try:
            return self._varied(budget, contract, own)
        except Unsettled:
            self._settled = True
        with suppress(Unsettled, AttnMemError):  # it may not run twice
            steady = settle(self._item, self._primed, {"": own}).run
            if steady is not None:
                return self._varied(budget, contract, steady.measurements[""])
        return GrowthFindings(notes=(f"the {budget.metric} depends on what ran before",))

    def _left_by_each_run(self, own: Measurement) -> Judgement | None:
        """Returns that the contract is broken if each run leaves memory that outlives the test."""
        try:
            steady = settle(self._item, self._primed, {"": own})
        except AttnMemError:  # the runs at other sizes say why
            return None
        if not steady.left:
            return None
        kept = left_by(self._item, self._primed)
        return Judgement(Answer.BROKEN, f"each run leaves +{format_size(steady.left)}{kept}")

    def _varied(self, budget: Budget, contract: Contract, own: Measurement) -> GrowthFindings:
        if names_world(self._item, contract):
            return self._with_worlds(budget, contract, own)
        varied = variable(self._item, contract, budget.fixed)
        runs = self._runs(varied, budget, own)
        notes = dict.fromkeys(varied.notes)
        lines = _lines(runs, contract, varied.arguments, notes)
        grids: list[Growth] = []
        beside: list[Judgement] = []
        try:
            grids += _grids(runs, contract, lines, notes)
            jointly = judged_jointly(runs, contract, lines, grids)
            beside += [] if jointly is None else [jointly]
            beside += judged_in_corners(runs, contract, lines)
        except Unclear as error:
            notes[str(error)] = None
        worst = min(beside, key=lambda one: one.answer, default=None)
        return GrowthFindings((*lines.values(), *grids), (*notes,), worst)

    def _with_worlds(self, budget: Budget, contract: Contract, own: Measurement) -> GrowthFindings:
        """Returns the growth with the number of ranks, and with the other symbols."""
        try:
            worlds = over_worlds(self._item, self._memory, self._primed, budget, contract, own)
        except Unclear as error:
            return GrowthFindings(notes=(str(error),))
        rest = contract.without(WORLD)
        if not varies(self._item, rest, budget.fixed):
            fixed = fixed_over_worlds(worlds, contract, budget.values)
            return GrowthFindings((worlds,), jointly=fixed)
        growths, notes, jointly = self._varied(replace(budget, contract=rest), rest, own)
        if jointly and jointly.answer is Answer.BROKEN and contract.degree(WORLD) > 0:
            jointly = replace(jointly, answer=Answer.UNKNOWN)  # W may change these bytes
        program = (self._item, self._memory, self._primed)
        arguments = variable(self._item, rest, budget.fixed).arguments
        beside = [] if jointly is None else [jointly]
        try:
            beside += undivided(*program, budget, arguments, worlds, growths, own)
        except Unclear as error:
            notes = (*notes, str(error))
        worst = min(beside, key=lambda one: one.answer, default=None)
        return GrowthFindings((worlds, *growths) if growths else (), notes, worst)

    def explanation(
        self, symbols: Collection[str], metric: str, own: Measurement
    ) -> tuple[Growth, ...]:
        """Returns the growth along each of *symbols* that the test takes; nothing if unknown.

        So for the sizes that the test is parametrized with, which its budget may not name.
        """
        wanted = [*sorted(symbols), *further_sizes(self._item, symbols)]
        if not wanted:
            return ()
        named = Contract("", tuple(((symbol, 1),) for symbol in wanted))
        try:
            varied = variable(self._item, named)
            runs = self._runs(varied, Budget(None, metric=metric), own)
            return tuple(GrowthLine(runs, s).plain() for s in varied.arguments if s in wanted)
        except AttnMemError:  # an explanation must not fail a test
            return ()

    def _runs(self, varied: Variable, budget: Budget, own: Measurement) -> GrowthRuns:
        sweep = SizeSweep(self._item, self._memory, self._primed, varied.arguments)
        sweep.warmup += self._settled
        return GrowthRuns(sweep, budget, own)


def _lines(
    runs: GrowthRuns, contract: Contract, arguments: Mapping[str, str], notes: dict[str, None]
) -> dict[str, Growth]:
    """Returns the growth along each symbol; adds to *notes* why others are not known.

    A growth that breaks the contract is a proof, whatever is not known besides.

    Raises:
        AttnMemError: no symbol of the contract can be varied.
    """
    lines: dict[str, Growth] = {}
    refused: list[AttnMemError] = []
    for symbol, argument in arguments.items():
        named = symbol in contract.symbols
        try:
            line = GrowthLine(runs, symbol)
            lines[symbol] = line.named(contract) if named else line.unnamed(contract)
        except Unclear as error:
            notes[str(error)] = None
        except AttnMemError as error:
            refused.append(error)
            no_size = "" if named else f", or leave it out: fixed={argument!r}"
            notes[f"{symbol} was not varied: {error}{no_size}"] = None
    known = [line for s, line in lines.items() if s in contract.symbols or not contract.symbols]
    broken = any(line.judge(contract).answer is Answer.BROKEN for line in lines.values())
    if refused and not known and not broken:
        raise refused[0]
    return lines


def _grids(
    runs: GrowthRuns, contract: Contract, lines: Mapping[str, Growth], notes: dict[str, None]
) -> Iterator[Growth]:
    """Yields the growth over each grid of symbols whose product is not allowed."""
    named = [symbol for symbol in lines if symbol in contract.symbols]
    for count in range(2, len(named) + 1):
        for group in combinations(named, count):
            if contract.divides(group):
                grid = {s: lines[s].sizes[s][: contract.degree(s) + 3] for s in group}
                try:
                    yield _over_grid(runs, contract, grid)
                except Unclear:
                    raise
                except AttnMemError as error:
                    names = " and ".join(group)
                    notes[f"{names} were not varied together: {error}"] = None


def _over_grid(runs: GrowthRuns, contract: Contract, grid: Mapping[str, tuple[int, ...]]) -> Growth:
    points = {
        point: runs.run(dict(zip(grid, point, strict=True))) for point in product(*grid.values())
    }
    peaks = {at: run.nbytes for at, run in points.items()}
    growth = Growth(grid, peaks, runs.metric, runs.formula_bytes(points))
    answer = growth.judge(contract).answer
    if answer is Answer.BROKEN:
        return growth
    return runs.with_parts_below_peak(growth, points, unclear=answer is Answer.UNKNOWN)

"""The growth of a test in each of its symbols, from runs at other sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, product
from typing import TYPE_CHECKING

from ..budgets.budget import Budget
from ..budgets.growth_contract import Contract
from ..budgets.growth_fit import Growth, GrowthFindings
from ..budgets.growth_judgement import Answer
from ..errors import AttnMemError
from ..measurement.measurement import Measurement
from ..symbols.names import WORLD
from .growth_jointly import fixed_over_worlds, judged_jointly
from .growth_line import GrowthLine
from .growth_runs import GrowthRuns, Unclear
from .item_arguments import Variable, further_sizes, variable, varies
from .size_sweep import SizeSweep
from .world_runs import names_world, over_worlds

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
        if names_world(self._item, contract):
            return self._with_worlds(budget, contract, own)
        varied = variable(self._item, contract)
        runs = self._runs(varied, budget, own)
        try:
            lines, refused = _lines(runs, contract, varied.arguments)
            grids = [*_grids(runs, contract, lines)]
            jointly = judged_jointly(runs, contract, lines, grids)
        except Unclear as error:
            return GrowthFindings(notes=(str(error),))
        notes = (f"{symbol} was not varied: {error}" for symbol, error in refused.items())
        return GrowthFindings((*lines.values(), *grids), (*varied.notes, *notes), jointly)

    def _with_worlds(self, budget: Budget, contract: Contract, own: Measurement) -> GrowthFindings:
        """Returns the growth with the number of ranks, and with the other symbols."""
        try:
            worlds = over_worlds(self._item, self._memory, self._primed, budget, contract, own)
        except Unclear as error:
            return GrowthFindings(notes=(str(error),))
        rest = contract.without(WORLD)
        if not varies(self._item, rest):
            fixed = fixed_over_worlds(worlds, contract, budget.values)
            return GrowthFindings((worlds,), jointly=fixed)
        growths, notes, jointly = self.findings(replace(budget, contract=rest), own)
        if jointly and jointly.answer is Answer.BROKEN and contract.degree(WORLD) > 0:
            jointly = replace(jointly, answer=Answer.UNKNOWN)  # W may change these bytes
        return GrowthFindings((worlds, *growths) if growths else (), notes, jointly)

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
        return GrowthRuns(sweep, budget, own)


def _lines(
    runs: GrowthRuns, contract: Contract, symbols: Iterable[str]
) -> tuple[dict[str, Growth], dict[str, AttnMemError]]:
    """Returns the growth along each symbol, and the errors of symbols that cannot be varied.

    Raises:
        Unclear: the runs do not show how memory grows.
        AttnMemError: no symbol of the contract can be varied.
    """
    lines: dict[str, Growth] = {}
    refused: dict[str, AttnMemError] = {}
    for symbol in symbols:
        named = symbol in contract.symbols
        if not named and not runs.sweep.has_size(symbol):
            continue  # such as M=None, for the default
        try:
            line = GrowthLine(runs, symbol)
            lines[symbol] = line.named(contract) if named else line.unnamed(contract)
        except Unclear:
            raise
        except AttnMemError as error:
            refused[symbol] = error
    if refused and not (contract.symbols or {*lines}) & {*lines}:
        raise next(iter(refused.values()))
    return lines, refused


def _grids(runs: GrowthRuns, contract: Contract, lines: Mapping[str, Growth]) -> Iterator[Growth]:
    """Yields the growth over each grid of symbols whose product is not allowed."""
    named = [symbol for symbol in lines if symbol in contract.symbols]
    for count in range(2, len(named) + 1):
        for group in combinations(named, count):
            if contract.divides(group):
                grid = {s: lines[s].sizes[s][: contract.degree(s) + 3] for s in group}
                yield _over_grid(runs, contract, grid)


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

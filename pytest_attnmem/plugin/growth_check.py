"""The growth of a test in each of its symbols, from runs at other sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, product
from typing import NamedTuple

from ..budgets.growth_contract import Contract
from ..budgets.growth_fit import Growth
from ..budgets.growth_judgement import Answer
from ..errors import AttnMemError
from ..measurement.measurement import Measurement
from .growth_line import GrowthLine
from .growth_runs import GrowthRuns, Unclear
from .size_argument import Variable
from .size_sweep import SizeSweep


class GrowthFindings(NamedTuple):
    """The growth of a test in each symbol that can be varied."""

    growths: tuple[Growth, ...] = ()
    notes: tuple[str, ...] = ()
    """The symbols that were not varied, with the reasons."""


class GrowthCheck:
    """Measures the growth of a test in one metric, for a contract or an explanation."""

    def __init__(self, sweep: SizeSweep, varied: Variable, metric: str, own: Measurement) -> None:
        self._runs = GrowthRuns(sweep, metric, own)
        self._varied = varied

    def findings(self, contract: Contract) -> GrowthFindings:
        """Returns the growth along each symbol, at sizes that decide *contract*.

        Raises:
            Unclear: the runs do not show how memory grows.
            AttnMemError: the test does not run at other sizes of any symbol of the contract.
        """
        lines: dict[str, Growth] = {}
        refused: dict[str, AttnMemError] = {}
        for symbol, name in self._varied.arguments.items():
            size = self._runs.sweep.argument(name)
            named = symbol in contract.symbols
            if not named and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
                continue  # such as M=None, for the default
            try:
                line = GrowthLine(self._runs, symbol, name)
                lines[symbol] = line.named(contract) if named else line.unnamed(contract)
            except Unclear:
                raise
            except AttnMemError as error:
                refused[symbol] = error
        if refused and not (contract.symbols or {*lines}) & {*lines}:
            raise next(iter(refused.values()))
        notes = [
            *self._varied.notes,
            *(f"{symbol} was not varied: {error}" for symbol, error in refused.items()),
        ]
        return GrowthFindings((*lines.values(), *self._grids(contract, lines)), tuple(notes))

    def explanation(self, symbols: Iterable[str]) -> tuple[Growth, ...]:
        """Returns the growth along each of *symbols* that the test takes.

        Raises:
            AttnMemError: the test does not run at other sizes.
        """
        wanted = {*symbols}
        arguments = {s: name for s, name in self._varied.arguments.items() if s in wanted}
        return tuple(
            GrowthLine(self._runs, symbol, name).plain() for symbol, name in arguments.items()
        )

    def _grids(self, contract: Contract, lines: Mapping[str, Growth]) -> Iterator[Growth]:
        """Yields the growth over each grid of symbols whose product is not allowed."""
        named = [symbol for symbol in lines if symbol in contract.symbols]
        for count in range(2, len(named) + 1):
            for group in combinations(named, count):
                if contract.divides(group):
                    yield self._over_grid(contract, group, lines)

    def _over_grid(
        self, contract: Contract, group: tuple[str, ...], lines: Mapping[str, Growth]
    ) -> Growth:
        grid = {s: lines[s].sizes[s][: contract.degree(s) + 3] for s in group}
        names = {symbol: self._varied.arguments[symbol] for symbol in group}
        runs = {
            point: self._runs.run(dict(zip(names.values(), point, strict=True)))
            for point in product(*grid.values())
        }
        growth = Growth(grid, {at: run.nbytes for at, run in runs.items()}, self._runs.metric)
        answer = growth.judge(contract).answer
        if answer is Answer.BROKEN:
            return growth
        unclear = answer is Answer.UNKNOWN
        return self._runs.with_parts_below_peak(growth, names, runs, unclear=unclear)

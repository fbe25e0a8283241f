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
from ..budgets.growth_judgement import Answer, Judgement, judge_line
from ..budgets.growth_over_formula import judge_difference
from ..errors import AttnMemError
from ..measurement.measurement import Measurement
from ..symbols.names import WORLD
from ..units import format_size
from .growth_jointly import fixed_over_worlds, judged_jointly
from .growth_line import GrowthLine
from .growth_runs import GrowthRuns, Unclear, Unsettled
from .item_arguments import Variable, further_sizes, variable, varies
from .ranks import world_of
from .settled_runs import settle
from .size_sweep import SizeSweep
from .traced_rerun import left_by
from .world_runs import WorldSweep, names_world, over_worlds, undivided

if TYPE_CHECKING:
    import pytest

    from ..backends.primed_backend import PrimedBackend


class GrowthCheck:
    """Runs a test at other sizes, to find out how its memory grows."""

    def __init__(self, item: pytest.Item, primed: PrimedBackend) -> None:
        self._item = item
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
        left = f"each run leaves +{format_size(steady.left)}{kept}"
        return Judgement(Answer.BROKEN, left, leak=True)

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
            runs = self._runs_in_worlds({}, budget, own)
            worlds = over_worlds(runs, contract, world_of(self._item) or 1)
        except Unclear as error:
            return GrowthFindings(notes=(str(error),))
        rest = contract.without(WORLD)
        if not varies(self._item, rest, budget.fixed):
            fixed = fixed_over_worlds(worlds, contract, budget.values)
            return GrowthFindings((worlds,), jointly=fixed)
        growths, notes, jointly = self._varied(replace(budget, contract=rest), rest, own)
        if jointly and jointly.answer is Answer.BROKEN and contract.degree(WORLD) > 0:
            jointly = replace(jointly, answer=Answer.UNKNOWN)  # W may change these bytes
        arguments = variable(self._item, rest, budget.fixed).arguments
        beside = [] if jointly is None else [jointly]
        try:
            runs = self._runs_in_worlds(arguments, budget, own)
            beside += undivided(runs, contract, worlds, growths)
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
        except (AttnMemError, Unclear):  # an explanation must not fail a test
            return ()

    def _runs(self, varied: Variable, budget: Budget, own: Measurement) -> GrowthRuns:
        sweep = SizeSweep(self._item, self._primed, varied.arguments)
        sweep.warmup += self._settled
        return GrowthRuns(sweep, budget, own)

    def _runs_in_worlds(
        self, arguments: Mapping[str, str], budget: Budget, own: Measurement
    ) -> GrowthRuns:
        sweep = WorldSweep(self._item, self._primed, {WORLD: WORLD, **arguments})
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


#: Multiples of the test's own sizes; larger ones where no memory is needed.
_TIMES = (1, 2, 3, 4, 5, 6)
_FEW = 4


def judged_in_corners(
    runs: GrowthRuns, contract: Contract, lines: Mapping[str, Growth]
) -> Iterator[Judgement]:
    """Yields answers that are not on the lines, if the lines keep the contract.

    Raises:
        Unclear: the memory of a run is not known.
    """
    if any(line.judge(contract).answer is not Answer.KEPT for line in lines.values()):
        return
    named = [symbol for symbol in lines if contract.degree(symbol) > 0]
    others = [symbol for symbol in lines if symbol not in contract.symbols]
    bent = [s for s in others if _rises_to(lines[s], runs.sweep.size(s))]
    if bent and len(bent) + len(named) > 1:
        yield _together(runs, contract, [*lines], [*named, *bent])
    for symbol in others if runs.has_formula else ():
        over = [lines[symbol].over(at) for at in lines[symbol].peaks]
        if over[-1] < over[0]:
            yield from (_where_small(runs, contract, lines, symbol, one) for one in named)


def _rises_to(line: Growth, own: int) -> bool:
    """Returns True if less memory is needed below the test's own size than at it."""
    return min(line.over(at) for at in line.peaks if at[0] <= own) < line.over((own,))


def _together(runs: GrowthRuns, contract: Contract, every: list[str], bent: list[str]) -> Judgement:
    """Returns the answer for sizes that grow together: a minimum of two stands still on lines."""
    try:
        return _multiplied(runs, contract, every)
    except AttnMemError:  # some of them take few sizes
        try:
            return _multiplied(runs, contract, bent)
        except AttnMemError as error:
            names = " and ".join(bent)
            return Judgement(Answer.UNKNOWN, f"{names} were not varied together: {error}")


def _multiplied(runs: GrowthRuns, contract: Contract, symbols: list[str]) -> Judgement:
    """Returns the answer for multiples of the test's own sizes of *symbols*.

    Raises:
        AttnMemError: the test does not run there.
    """
    values = []
    tried = _TIMES if runs.sweep.upward else _TIMES[:_FEW]
    for times in tried:
        sizes = {symbol: runs.sweep.size(symbol) * times for symbol in symbols}
        run = runs.own if times == 1 else runs.run(sizes)
        values.append(run.nbytes - run.formula)
    power = max(sum(dict(one).get(s, 0) for s in symbols) for one in contract.allowed)
    allowed = Contract("", ((("times", max(power, 0)),),))
    judged = judge_line("times", tried, values, allowed, "")
    points = ", ".join(
        f"{format_size(value)} at {times} times the sizes"
        for times, value in zip(tried, values, strict=True)
    )
    names = " and ".join(symbols)
    return Judgement(
        judged.answer, f"{runs.metric} grows too fast where {names} grow together: {points}"
    )


def _where_small(
    runs: GrowthRuns, contract: Contract, lines: Mapping[str, Growth], symbol: str, named: str
) -> Judgement:
    """Returns the answer for one symbol where another, which the formula reads, is small.

    Under ``4*layers*N^2``, 8*N^2 bytes are too many for one layer.
    """
    (tried,) = lines[symbol].sizes.values()
    (axis,) = lines[named].sizes.values()
    why: AttnMemError | None = None
    for small in dict.fromkeys([1, *tried]):
        try:
            at = {(n,): runs.run({named: n, symbol: small}) for n in axis[:5]}
        except AttnMemError as error:
            why = why or error
            continue
        over: dict[tuple[int, ...], int] = {n: run.nbytes - run.formula for n, run in at.items()}
        judged = judge_difference(
            {named: tuple(n for (n,) in at)}, over, contract, f"{runs.metric} over the formula"
        )
        return Judgement(judged.answer, f"{judged.reason}, where {symbol}={small}", judged.terms)
    return Judgement(Answer.UNKNOWN, f"{symbol} and {named} were not varied together: {why}")

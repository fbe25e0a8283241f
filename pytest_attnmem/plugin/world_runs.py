"""Runs a test as its rank of worlds of several sizes: ``memory_budget("O(1/W)", ranks=8)``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..budgets.growth_contract import Contract
from ..budgets.growth_fit import FACTORS, Growth, WorldGrowth
from ..budgets.growth_judgement import Answer, Judgement
from ..budgets.growth_over_formula import constant
from ..errors import AttnMemError, BudgetError
from ..formulas.interpolation import differences, shared
from ..symbols.names import WORLD
from ..units import format_points
from .growth_runs import GrowthRuns, Run
from .ranks import in_world, world_of
from .size_sweep import SizedRun, SizeSweep

if TYPE_CHECKING:
    import pytest


def names_world(item: pytest.Item, contract: Contract) -> bool:
    """Returns True if a contract bounds the growth of a test with the number of its ranks.

    Raises:
        BudgetError: the contract divides by the number of ranks, and the test has none.
    """
    if WORLD not in contract.symbols:
        return False
    if world_of(item) is None and contract.degree(WORLD) < 0:
        raise BudgetError(
            f"contract {contract} divides by {WORLD}, the number of ranks, and the marker has no"
            " ranks; write ranks=8"
        )
    return world_of(item) is not None


class WorldSweep(SizeSweep):
    """Runs a test's body in worlds of other sizes."""

    @contextmanager
    def at(self, sizes: Mapping[str, int]) -> Iterator[Callable[[bool, bool], SizedRun]]:
        """Yields a function that runs the test as its rank of the world in *sizes*.

        Raises:
            AttnMemError: the test does not run there.
        """
        with in_world(self._item, sizes[WORLD]), super().at(sizes) as run:
            yield run


def over_worlds(runs: GrowthRuns, contract: Contract, smallest: int) -> WorldGrowth:
    """Returns the growth of a test's rank with the number of ranks, from the test's own on.

    If the metric keeps *contract*, the tensors beneath it are listed too.

    Raises:
        Unclear: the memory of a run is not known.
        AttnMemError: the test does not run in another world.
    """
    by_world: dict[tuple[int, ...], Run] = {(smallest,): runs.own}
    for factor in FACTORS[1:]:
        by_world[smallest * factor,] = runs.run({WORLD: smallest * factor})
    growth = _growth(runs, by_world)
    if growth.polynomial is None:  # the first run may fill caches
        by_world[smallest,] = runs.run({WORLD: smallest})
        growth = _growth(runs, by_world)
    if growth.judge(contract).answer is not Answer.KEPT:
        return growth
    return runs.with_parts_below_peak(growth, by_world, unclear=False)


def undivided(
    runs: GrowthRuns, contract: Contract, worlds: WorldGrowth, lines: Iterable[Growth]
) -> Iterator[Judgement]:
    """Yields the answers for the bytes of a rank that the number of ranks does not divide.

    Under ``O(N/W + 1)``, *worlds* take 8*N bytes of every rank for a constant, and *lines* allow
    them.

    Raises:
        Unclear: the memory of a run is not known.
    """
    plain = contract.undivided(WORLD)
    if plain is None:
        return
    for line in lines:
        symbol, *more = line.sizes
        if not more and plain.degree(symbol) < contract.degree(symbol):
            yield _undivided(runs, plain, worlds, line, symbol)


def _undivided(
    runs: GrowthRuns, plain: Contract, worlds: WorldGrowth, line: Growth, symbol: str
) -> Judgement:
    own = runs.sweep.size(symbol)
    (axis,), (each,) = line.sizes.values(), worlds.sizes.values()
    parts = {own: _constant(each, [worlds.over((world,)) for world in each])}
    few = each[:4]
    for size in sorted((n for n in axis if n != own), key=lambda n: (n > own, -n))[:2]:
        try:
            there = [runs.run({symbol: size, WORLD: world}) for world in few]
        except AttnMemError as error:
            why = f"{symbol} and {WORLD} were not varied together: {error}"
            return Judgement(Answer.UNKNOWN, why)
        parts[size] = _constant(few, [run.nbytes - run.formula for run in there])
    what = f"{runs.metric} that {WORLD} does not divide"
    sizes, values = [*sorted(parts)], [parts[size] for size in sorted(parts)]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        together = f"sizes cannot tell how {what} grows with {symbol}"
        return Judgement(Answer.UNKNOWN, together)
    degree = plain.degree(symbol)
    bends = differences(sizes, known, degree + 1) if len(sizes) > degree + 1 else []
    if all(bend <= 0 for bend in bends):
        return Judgement(Answer.KEPT, "")
    answer = Answer.UNKNOWN if degree else Answer.BROKEN
    return Judgement(answer, f"{what} grows with {symbol}: {format_points(sizes, known)}")


def _constant(worlds: Sequence[int], values: Sequence[int]) -> int | None:
    """Returns the bytes that each rank needs in worlds of any size; None if there is no form."""
    form = shared(WORLD, worlds, values)
    return None if form is None else constant(form)


def _growth(runs: GrowthRuns, by_world: Mapping[tuple[int, ...], Run]) -> WorldGrowth:
    sizes = {WORLD: tuple(world for (world,) in by_world)}
    peaks = {at: run.nbytes for at, run in by_world.items()}
    return WorldGrowth(sizes, peaks, runs.metric, runs.formula_bytes(by_world))

"""Runs a test as its rank of worlds of several sizes: ``memory_budget("O(1/W)", ranks=8)``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..budgets.budget import Budget
from ..budgets.growth_contract import Contract
from ..budgets.growth_judgement import Answer
from ..budgets.world_growth import FACTORS, WorldGrowth
from ..errors import BudgetError
from ..measurement.measurement import Measurement
from ..symbols.names import WORLD
from .growth_runs import GrowthRuns, Run
from .ranks import in_world, world_of
from .size_sweep import SizedRun, SizeSweep

if TYPE_CHECKING:
    import pytest

    from ..api.attnmem import AttnMem
    from ..backends.primed_backend import PrimedBackend


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


class _WorldSweep(SizeSweep):
    """Runs a test's body in worlds of other sizes."""

    @contextmanager
    def at(self, sizes: Mapping[str, int]) -> Iterator[Callable[[bool, bool], SizedRun]]:
        """Yields a function that runs the test as its rank of the world in *sizes*.

        Raises:
            AttnMemError: the test does not run there.
        """
        with in_world(self._item, sizes[WORLD]), super().at(sizes) as run:
            yield run


def over_worlds(
    item: pytest.Item,
    memory: AttnMem,
    primed: PrimedBackend,
    budget: Budget,
    contract: Contract,
    own: Measurement,
) -> WorldGrowth:
    """Returns the growth of a test's rank with the number of ranks; *own* is the test's run.

    If the metric keeps *contract*, the tensors beneath it are listed too.

    Raises:
        Unclear: the memory of a run is not known.
        AttnMemError: the test does not run in another world.
    """
    smallest = world_of(item) or 1
    runs = GrowthRuns(_WorldSweep(item, memory, primed, {WORLD: WORLD}), budget, own)
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


def _growth(runs: GrowthRuns, by_world: Mapping[tuple[int, ...], Run]) -> WorldGrowth:
    sizes = {WORLD: tuple(world for (world,) in by_world)}
    peaks = {at: run.nbytes for at, run in by_world.items()}
    return WorldGrowth(sizes, peaks, runs.metric, runs.formula_bytes(by_world))

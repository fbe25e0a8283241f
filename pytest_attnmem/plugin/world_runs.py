"""Runs a test as its rank of worlds of several sizes: ``memory_budget("O(1/W)", ranks=8)``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..budgets.growth_contract import Contract
from ..budgets.growth_judgement import Answer
from ..budgets.world_growth import FACTORS, WorldGrowth
from ..errors import BudgetError
from ..measurement.measurement import Measurement
from ..symbols.attention_shape import Source
from ..symbols.names import WORLD
from .growth_runs import GrowthRuns, Run
from .ranks import has_ranks, in_world, world_of
from .size_sweep import SizeSweep

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


def meshes(item: pytest.Item) -> Source:
    """Returns the sizes of the device meshes that a test of many ranks made, as symbols."""
    if world_of(item) is None or not has_ranks(item.config):
        return Source("the device mesh", {})
    from ..backends.ranks.mesh_sizes import mesh_sizes

    return Source("the device mesh", mesh_sizes())


class _WorldSweep(SizeSweep):
    """Runs a test's body in worlds of other sizes."""

    def run_at(
        self, sizes: Mapping[str, int], *, evidence: bool = False, trace: bool = False
    ) -> dict[str, Measurement]:
        """Returns the measurements of the test as its rank of the world in *sizes*.

        Raises:
            AttnMemError: the test does not run there.
        """
        with in_world(self._item, sizes[WORLD]):
            return super().run_at(sizes, evidence=evidence, trace=trace)


def over_worlds(
    item: pytest.Item,
    memory: AttnMem,
    primed: PrimedBackend,
    contract: Contract,
    metric: str,
    own: Measurement,
) -> WorldGrowth:
    """Returns the growth of a test's rank with the number of ranks; *own* is the test's run.

    If the metric keeps *contract*, the tensors beneath it are listed too.

    Raises:
        Unclear: the memory of a run is not known.
        AttnMemError: the test does not run in another world.
    """
    smallest = world_of(item) or 1
    runs = GrowthRuns(_WorldSweep(item, memory, primed, {WORLD: WORLD}), metric, own)
    by_world: dict[tuple[int, ...], Run] = {(smallest,): runs.own}
    for factor in FACTORS[1:]:
        by_world[smallest * factor,] = runs.run({WORLD: smallest * factor})
    growth = _growth(by_world, metric)
    if growth.polynomial is None:  # the first run may fill caches
        by_world[smallest,] = runs.run({WORLD: smallest})
        growth = _growth(by_world, metric)
    if growth.judge(contract).answer is not Answer.KEPT:
        return growth
    return runs.with_parts_below_peak(growth, by_world, unclear=False)


def _growth(by_world: Mapping[tuple[int, ...], Run], metric: str) -> WorldGrowth:
    sizes = {WORLD: tuple(world for (world,) in by_world)}
    return WorldGrowth(sizes, {at: run.nbytes for at, run in by_world.items()}, metric)

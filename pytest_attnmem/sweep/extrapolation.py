"""What cannot be run here at its length, or not in reasonable time: from smaller ones, or models.

A kernel that loops over blocks is simulated block by block. Its memory is a polynomial in N for
lengths that leave the same rest of a block, which smaller ones tell exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from ..budgets.growth_fit import Growth
from ..budgets.sizes_to_try import ENOUGH
from ..errors import BudgetError
from .case import Case
from .memory import Seen

#: All blocks of the bundled kernels divide it.
PERIOD: Final = 128
#: Lengths up to this are quick to simulate, and tell how the number of allocations grows.
SHORT: Final = 1024
#: More allocations than this take more than a second or two.
MOST: Final = 4_000

Observer = Callable[[Case], Seen]


def allocations(case: Case, observe: Observer) -> int:
    """About how many the case makes: counted at two short lengths, whose growth goes on."""
    if case.N <= SHORT:
        return 0
    few, twice = (max(1, observe(case.at(N)).allocations) for N in (SHORT // 2, SHORT))
    return int(twice * math.pow(max(1.0, twice / few), math.log2(case.N / SHORT)))


def by_growth(case: Case, observe: Observer) -> Seen:
    """Its memory by that of shorter lengths, on a device that none of them fills.

    Raises:
        BudgetError: no polynomial goes through them all, or another phase is the largest there.
    """
    lengths = [case.N % PERIOD + PERIOD * blocks for blocks in range(4, 4 + ENOUGH)]
    model = case.attention.model
    if model is not None:
        told = model.training if case.backward else model.forward
        phases = {told.high_water(case.at(N).shape, ("cuda",)) for N in [*lengths, case.N]}
        if len(phases) > 1:
            raise BudgetError(f"{case}: too long to simulate, and shorter ones peak elsewhere")
    seen = {N: observe(case.at(N)) for N in lengths}

    def grown(numbers: dict[int, int | None]) -> int | None:
        known: dict[tuple[int, ...], int] = {
            (N,): number for N, number in numbers.items() if number is not None
        }
        if len(known) < len(lengths):
            return None
        fit = Growth({"N": tuple(lengths)}, known).polynomial
        if fit is None:
            raise BudgetError(f"{case}: too long to simulate, and it grows by no polynomial")
        return int(fit.value({"N": case.N}))

    return Seen(
        grown({N: short.before_bytes for N, short in seen.items()}),
        grown({N: short.peak_bytes for N, short in seen.items()}),
        0,
        unmeasured=next((short.unmeasured for short in seen.values() if short.unmeasured), ""),
    )


def by_model(case: Case, kinds: tuple[str, ...]) -> Seen:
    """One rank's memory by its kernel's model, with what the program around it holds.

    Raises:
        BudgetError: the ranks cannot share the sequence evenly.
    """
    model, ranks = case.attention.model, case.attention.ranks
    if model is None:
        raise BudgetError(f"{case.attention.name} has no model")
    if case.N % ranks:
        raise BudgetError(f"{ranks} ranks cannot share N={case.N} evenly")
    if not case.backward:
        return Seen(None, 3 * case.tensor_bytes + model.forward.peak(case.shape, kinds), 0)
    # q, k and v; a warm-up's copies and their gradients; the copies that the pass is made with
    around = 12 * case.tensor_bytes
    gradient = case.tensor_bytes
    kept = model.training.live(case.shape)["delta"]
    loss = kept["loss"] + kept["loss gradient"]  # the model's pass ends in a sum, this does not
    before = around + gradient + kept["out"] + kept["lse"]
    return Seen(before, around + gradient + model.training.peak(case.shape, kinds) - loss, 0)

"""Memory at lengths that take too long to simulate: from shorter lengths, or by the kernel's model.

A kernel that loops over blocks is simulated block by block. Its memory is a polynomial in N over
lengths that leave the same remainder of a block, so shorter lengths determine it exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from ..budgets.growth_fit import Growth
from ..budgets.memory_model import KernelModel
from ..budgets.sizes_to_try import ENOUGH
from ..errors import BudgetError
from .case import SweepCase
from .memory import CaseMemory

#: The blocks of all bundled kernels divide this length.
PERIOD: Final = 128
#: Lengths up to this one are quick to simulate and show how the number of allocations grows.
SHORT: Final = 1024
#: A case with more allocations is not simulated: it would take more than a second or two.
MAX_ALLOCATIONS: Final = 4_000
#: A kernel with more allocations at half of ``SHORT`` is slow at short lengths too.
MAX_SHORT_ALLOCATIONS: Final = 1_500

Observe = Callable[[SweepCase], CaseMemory]


def extrapolated(half: int, full: int, doublings: float) -> int:
    """Returns a count that grows with the length, ``doublings`` doublings beyond ``full``.

    ``half`` is the count at half the length of ``full``.
    """
    return int(full * math.pow(max(1.0, full / max(1, half)), doublings))


def allocations(case: SweepCase, observe: Observe) -> int:
    """Returns the approximate number of allocations, extrapolated from two short lengths.

    Raises:
        BudgetError: the short lengths make so many that simulating them takes long.
    """
    if case.N <= SHORT:
        return 0
    half = observe(case.at(SHORT // 2)).allocations
    if half > MAX_SHORT_ALLOCATIONS:
        raise BudgetError(
            f"{case}: too long to simulate, for N={SHORT // 2} makes {half:,} allocations already;"
            f" sweep it up to N={SHORT}, or use attnmem predict, which has the kernel's model"
        )
    full = max(1, observe(case.at(SHORT)).allocations)
    return extrapolated(half, full, math.log2(case.N / SHORT))


def memory_by_growth(case: SweepCase, observe: Observe) -> CaseMemory:
    """Returns the memory of a case, extrapolated exactly from shorter lengths.

    ``observe`` measures a length on a device that no length fills.

    Raises:
        BudgetError: no polynomial goes through all lengths, or the kernel's model says that the
            polynomial of the shorter lengths does not hold at this length.
    """
    lengths = [case.N % PERIOD + PERIOD * blocks for blocks in range(4, 4 + ENOUGH)]
    if case.attention.model is not None:
        _check_model(case, case.attention.model, lengths)
    short = {N: observe(case.at(N)) for N in lengths}
    unmeasured = next((memory.unmeasured for memory in short.values() if memory.unmeasured), "")
    return CaseMemory(
        _extended(case, {N: memory.before_bytes for N, memory in short.items()}),
        _extended(case, {N: memory.peak_bytes for N, memory in short.items()}),
        0,
        unmeasured=unmeasured,
    )


def _check_model(case: SweepCase, kernel: KernelModel, lengths: list[int]) -> None:
    """Check that the model's peak, and its phase, at this length follow from the lengths."""
    model = kernel.training if case.backward else kernel.forward
    shapes = {N: case.at(N).shape for N in (*lengths, case.N)}
    if len({model.high_water(shape, ("cuda",)) for shape in shapes.values()}) > 1:
        raise BudgetError(f"{case}: too long to simulate, and shorter lengths peak elsewhere")
    if _extended(case, {N: model.peak(shapes[N]) for N in lengths}) != model.peak(shapes[case.N]):
        raise BudgetError(f"{case}: too long to simulate, and it grows unlike shorter lengths")


def _extended(case: SweepCase, numbers: Mapping[int, int | None]) -> int | None:
    """Returns the number at the case's length, or None if a shorter length has no number."""
    known: dict[tuple[int, ...], int] = {
        (N,): number for N, number in numbers.items() if number is not None
    }
    if len(known) < len(numbers):
        return None
    fit = Growth({"N": tuple(numbers)}, known).polynomial
    if fit is None:
        raise BudgetError(f"{case}: too long to simulate, and its memory is not a polynomial in N")
    return int(fit.value({"N": case.N}))


def memory_by_model(case: SweepCase, kinds: tuple[str, ...]) -> CaseMemory:
    """Returns one rank's memory by its kernel's model, with the tensors of the program around it.

    Raises:
        BudgetError: the ranks cannot share the sequence evenly, or the attention has no model.
    """
    model, ranks = case.attention.model, case.attention.ranks
    if model is None:
        raise BudgetError(f"{case.attention.name} has no model")
    if case.N % ranks:
        raise BudgetError(f"{ranks} ranks cannot share N={case.N} evenly")
    if not case.backward:
        peak = 3 * case.plan_parts + model.forward.peak(case.shape, kinds)
        return CaseMemory(None, peak, 0)
    # q, k and v; the copies of a warm-up and their gradients; the copies of the measured pass
    around = 12 * case.plan_parts
    gradient = case.plan_parts
    kept = model.training.live(case.shape)["delta"]
    loss = kept["loss"] + kept["loss gradient"]  # the model's pass ends in a sum, this one does not
    before = around + gradient + kept["out"] + kept["lse"]
    return CaseMemory(before, around + gradient + model.training.peak(case.shape, kinds) - loss, 0)

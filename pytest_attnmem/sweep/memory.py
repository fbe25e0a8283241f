"""The memory of one case, measured in nested windows so that each stage's tensors are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..backends.registry import restart
from ..errors import BudgetError
from ..measurement.held import Held
from ..measurement.measurement import Measurement
from ..measurement.window import Window
from ..measurement.window_stack import window
from .case import STAGES, SweepCase, program

if TYPE_CHECKING:
    from ..backends.primed_backend import PrimedBackend


@dataclass(frozen=True, slots=True)
class CaseMemory:
    """The memory of a case: the bytes of its tensors, without workspaces."""

    before_bytes: int | None
    """Alive when the backward pass begins; None without a backward pass."""
    peak_bytes: int | None
    allocations: int
    reserved_bytes: int | None = None
    """The most memory that CUDA's allocator reserved from the device, for all programs."""
    alive: Mapping[str, tuple[Held, ...]] = field(default_factory=dict)
    """The tensors at the peak, by the stage that made them."""
    out_of_memory: str = ""
    unmeasured: str = ""


def observe(case: SweepCase, primed: PrimedBackend, *, trace: bool = False) -> CaseMemory:
    """Runs the case once and returns its memory.

    Raises:
        AttnMemError: the case cannot be measured here.
        Exception: the attention's own error, unless the device is out of memory.
    """
    backend = primed.backend
    restart(backend)
    windows: dict[str, Window] = {}
    stages = ExitStack()
    reserved: int | None = None

    def begin(stage: str) -> None:
        nonlocal reserved
        # Reserved bytes count from an emptied cache; other metrics do not need one.
        metric = "peak" if windows else "reserved"
        windows[stage] = stages.enter_context(window(backend, metric, trace=trace))
        if reserved is None and "cuda" in backend.kinds:
            import torch

            reserved = torch.cuda.memory_reserved(backend.device)

    try:
        with stages:
            program(case, backend.device, begin)
    except BaseException:
        if not any(opened.out_of_memory for opened in windows.values()):
            raise
    ended = {stage: opened.measurement for stage, opened in windows.items()}
    measured = {stage: seen for stage, seen in ended.items() if seen is not None}
    if "inputs" not in measured:
        raise BudgetError(f"{case}: a window ended without a measurement")
    return _read(measured, next(reversed(windows)), reserved)


def _read(measured: Mapping[str, Measurement], last: str, reserved: int | None) -> CaseMemory:
    """Returns the memory from the windows of all stages.

    The windows end together, so the level at which a stage began is the last level minus its rise.
    """
    whole = measured["inputs"]
    if whole.peak_bytes is None or whole.retained_bytes is None:
        return CaseMemory(None, None, whole.allocations, unmeasured=whole.missing or "not measured")
    if whole.out_of_memory is not None:
        lack = (measured[last].out_of_memory or whole.out_of_memory).partition(" at ")[0]
        why = f"{lack} in the {STAGES[last]}"
        return CaseMemory(None, None, whole.allocations, out_of_memory=why)
    levels = {
        stage: whole.retained_bytes - (part.retained_bytes or 0) for stage, part in measured.items()
    }
    return CaseMemory(
        levels.get("backward"),
        whole.peak_bytes,
        whole.allocations,
        None if reserved is None else reserved + (whole.reserved_bytes or 0),
        _by_stage(measured, levels, whole.peak_bytes),
        unmeasured=whole.unmeasured or "",
    )


def _by_stage(
    measured: Mapping[str, Measurement], levels: Mapping[str, int], peak: int
) -> dict[str, tuple[Held, ...]]:
    """Returns the tensors alive at the peak, by the stage that made them."""
    own: dict[str, tuple[Held, ...]] = {}
    later: tuple[Held, ...] = ()
    for stage in reversed([name for name in STAGES if name in measured]):
        part = measured[stage]
        if levels[stage] + (part.peak_bytes or 0) != peak:
            continue  # the peak came before this stage
        if Counter(later) - Counter(part.held):  # a later stage was as high as the peak
            own, later = {}, ()
        remaining = Counter(later)
        made = []
        for held in reversed(part.held):
            if remaining[held]:
                remaining[held] -= 1
            else:
                made.append(held)
        own[stage] = tuple(reversed(made))
        later = part.held
    return dict(reversed(own.items()))

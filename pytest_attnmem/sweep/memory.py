"""The memory of one case: run under windows that nest, so that each stage's tensors are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ..errors import BudgetError
from ..measurement.held import Held
from ..measurement.measurement import Measurement
from ..measurement.window import Window
from ..measurement.window_stack import window
from .case import STAGES, Case, program

if TYPE_CHECKING:
    from ..backends.primed_backend import PrimedBackend

#: The pass that a stage is of.
_PASS: Final = ("backward", "forward")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a case needed. Bytes are those of its tensors, without workspaces."""

    before_bytes: int | None
    """Alive when the backward pass begins; ``None`` without one."""
    peak_bytes: int | None
    allocations: int
    reserved_bytes: int | None = None
    """Taken from the device at most, by whomever; known of CUDA's allocator alone."""
    alive: Mapping[str, tuple[Held, ...]] = field(default_factory=dict)
    """The tensors at the peak, by the stage that made them."""
    out_of_memory: str = ""
    unmeasured: str = ""


def observe(case: Case, primed: PrimedBackend, *, trace: bool = False) -> Seen:
    """Run the case once.

    Raises:
        AttnMemError: it cannot be measured here.
        Exception: whatever the attention raises, but that memory ran out.
    """
    backend = primed.backend
    backend.forget()
    windows: dict[str, Window] = {}
    stages = ExitStack()
    reserved: int | None = None

    def begin(stage: str) -> None:
        nonlocal reserved
        # Reserved bytes count from an emptied cache; the other metrics do not mind.
        metric = "peak" if windows else "reserved"
        windows[stage] = stages.enter_context(window(backend, metric, trace=trace))
        if reserved is None and backend.device.startswith("cuda"):
            import torch

            reserved = torch.cuda.memory_reserved(backend.device)

    try:
        with stages:
            program(case, backend.device, begin)
    except BaseException:
        if not any(seen.out_of_memory for seen in windows.values()):
            raise
    measured = {
        stage: seen.measurement for stage, seen in windows.items() if seen.measurement is not None
    }
    if "inputs" not in measured:
        raise BudgetError(f"{case}: a window ended without a measurement")
    return _read(measured, next(reversed(windows)), reserved)


def _read(measured: Mapping[str, Measurement], last: str, reserved: int | None) -> Seen:
    """All windows ended at once, so that what each saw tells where it began."""
    whole = measured["inputs"]
    if whole.peak_bytes is None or whole.retained_bytes is None:
        return Seen(None, None, whole.allocations, unmeasured=whole.missing or "not measured")
    if whole.out_of_memory is not None:
        lack = (measured[last].out_of_memory or whole.out_of_memory).partition(" at ")[0]
        stage = next((name for name in _PASS if name in last), "")
        where = f"{stage} pass" if stage else last.replace("warm-up", "forward pass")
        return Seen(None, None, whole.allocations, out_of_memory=f"{lack} in the {where}")
    levels = {
        stage: whole.retained_bytes - (seen.retained_bytes or 0) for stage, seen in measured.items()
    }
    return Seen(
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
    """What was alive at the peak, and was made in a stage: seen from its start, not from later."""
    own: dict[str, tuple[Held, ...]] = {}
    later: tuple[Held, ...] = ()
    for stage in reversed([name for name in STAGES if name in measured]):
        seen = measured[stage]
        if levels[stage] + (seen.peak_bytes or 0) != peak:
            continue  # the peak was before
        if Counter(later) - Counter(seen.held):  # as high as the peak, and after it
            own, later = {}, ()
        remaining = Counter(later)
        made = []
        for held in reversed(seen.held):
            if remaining[held]:
                remaining[held] -= 1
            else:
                made.append(held)
        own[stage] = tuple(reversed(made))
        later = seen.held
    return dict(reversed(own.items()))

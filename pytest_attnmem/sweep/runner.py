"""Runs cases one by one, each into a row; an error is a row too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from ..backends.primed_backend import PrimedBackend
from ..backends.registry import runs_kernels
from ..errors import AttnMemError, BudgetError, ProgramRefused
from ..measurement.held import Held
from ..measurement.installed_torch import missing_forms
from ..measurement.peak_components import Component, decompose
from ..models.model_memory import unlimited
from ..profiles import DeviceProfile
from ..report.cells import own_sizes
from ..symbols.names import SYMBOLS
from ..units import shown
from .case import SweepCase, timed_passes
from .extrapolation import MAX_ALLOCATIONS, PERIOD, allocations, memory_by_growth, memory_by_model
from .memory import CaseMemory, observe
from .results import ERROR, OK, OOM, UNMEASURED, Row


def with_dimensions(held: Held, symbols: Mapping[str, int]) -> Held:
    """Returns the tensor with its dimensions, unless a size of it belongs to two symbols."""
    sized = {name: size for name, size in symbols.items() if size != 1 and name in _SIZES}
    own = [*own_sizes(sized).values()]
    shared = {size for size in own if own.count(size) > 1}
    if shared.intersection(held.shape):
        return held
    return replace(held, dims=dimensions(held.shape, sized))


def dimensions(shape: Iterable[int], symbols: Mapping[str, int]) -> tuple[str, ...]:
    """Returns the symbol of each size, as ``("B", "H", "N", "N")`` for [1, 8, 2048, 2048].

    Sizes are read left to right and symbols come in their usual order, so that the batch is not
    mistaken for the heads if both are 1. A size of 1 stays a 1 if no symbol of size 1 comes next.
    Returns nothing if a size is not the size of any symbol.
    """
    own = own_sizes(symbols)
    order = [name for name in SYMBOLS if name in own and name != "itemsize"]
    sizes = [*shape]
    names: list[str] = []
    start = 0
    for heads in ("H", "Hkv"):  # a batched matrix product merges the heads with the batch
        both = (symbols.get("B", 1), symbols.get(heads, 1))
        if not names and len(sizes) == 3 and min(both) > 1 and sizes[0] == both[0] * both[1]:
            names += ["B", heads]
            start = order.index(heads) + 1
            del sizes[0]
    for size in sizes:
        matching = [place for place, name in enumerate(order) if symbols[name] == size]
        ahead = [place for place in matching if place >= start]
        if size == 1 and not ahead:
            names.append("1")
            continue
        if not matching:
            return ()
        place = ahead[0] if ahead else matching[-1]
        names.append(order[place])
        start = place + 1
    return tuple(names) if set(names) != {"1"} else ()


_SIZES = frozenset(SYMBOLS) - {"itemsize"}
_SIMULATED: Final = "simulated"


class SweepRunner:
    """Runs the cases of a sweep on one device."""

    def __init__(
        self,
        primed: PrimedBackend,
        *,
        passes: int = 100,
        warmup: int = 5,
        tracing: bool = False,
    ) -> None:
        """With ``tracing``, a case on a real device runs twice, to list the tensors at its peak."""
        self.primed = primed
        self.profile: DeviceProfile | None = getattr(primed.backend, "profile", None)
        self._passes, self._warmup = passes, warmup
        self._tracing = tracing
        self._unlimited: PrimedBackend | None = None
        self._imported: set[str] = set()
        self._short: dict[tuple[Any, ...], CaseMemory] = {}  # of short lengths, without tensors

    @property
    def simulated(self) -> bool:
        """True if only the bookkeeping of memory runs, without computation."""
        return self.profile is not None

    def row(self, case: SweepCase) -> Row:
        """Returns the row of the case; out of memory and other errors are rows."""
        try:
            return self._row(case)
        except KeyboardInterrupt:
            raise
        except (AttnMemError, ProgramRefused) as error:
            return self._blank(case, status=ERROR, reason=str(error))
        except Exception as error:
            return self._blank(case, status=ERROR, reason=shown(error, 160))

    def fits(self, case: SweepCase) -> bool:
        """Returns True if the device has enough memory for the case.

        Raises:
            AttnMemError: the answer is unknown, or the attention does not accept the case.
        """
        try:
            memory, how = self._memory(case)
        except (AttnMemError, KeyboardInterrupt):
            raise
        except Exception as error:
            raise BudgetError(f"{case}: the kernel raised {shown(error, 160)}") from error
        return self._refusal(memory, how) == "" and not memory.unmeasured

    def _row(self, case: SweepCase) -> Row:
        kind = self.primed.backend.device.partition(":")[0]
        if kind not in case.attention.devices:
            where = ", ".join(case.attention.devices)
            return self._blank(case, status=ERROR, reason=f"{case.attention.name} runs on {where}")
        memory, how = self._memory(case)
        row = self._blank(case, by=how)
        refusal = self._refusal(memory, how)
        if refusal:
            row = replace(row, status=OOM, reason=refusal)
            if self.simulated and memory.peak_bytes is None:
                memory = self._observe_unlimited(case)
        else:
            row = replace(row, before_bytes=self._with_workspaces(memory.before_bytes))
        if memory.unmeasured:
            return replace(row, status=UNMEASURED, reason=memory.unmeasured, before_bytes=None)
        row = replace(
            row,
            peak_bytes=self._with_workspaces(memory.peak_bytes),
            reserved_bytes=memory.reserved_bytes,
            components=self._components(case, memory, how),
        )
        return row if refusal or self.simulated else self._timed(row, case)

    def _memory(self, case: SweepCase) -> tuple[CaseMemory, str]:
        """Returns the memory of the case, and how it is known."""
        if case.attention.attend is None:
            if missing := missing_forms():
                return CaseMemory(None, None, 0, unmeasured=missing), "by the model"
            return memory_by_model(case, self.primed.backend.kinds), "by the model"
        if not self.simulated:
            if case.attention.name not in self._imported:  # an import may allocate tensors
                self._imported.add(case.attention.name)
                observe(case.at(min(case.N, PERIOD)), self.primed)
            return observe(case, self.primed), "measured"
        if allocations(case, self._observe_short) > MAX_ALLOCATIONS:
            return memory_by_growth(case, self._observe_short), "by growth"
        return observe(case, self.primed), _SIMULATED

    def _observe_short(self, case: SweepCase) -> CaseMemory:
        """Returns the memory at a short length, which several longer lengths ask for."""
        key = (case.attention.name, case.d, case.N, case.causal)
        if key not in self._short:
            self._short[key] = replace(self._observe_unlimited(case), alive={})
        return self._short[key]

    def _observe_unlimited(self, case: SweepCase) -> CaseMemory:
        if self.profile is None:
            return observe(case, self.primed)
        if self._unlimited is None:
            self._unlimited = unlimited(self.profile)
        return observe(case, self._unlimited)

    def _refusal(self, memory: CaseMemory, how: str) -> str:
        """Returns the reason why the case does not fit, or nothing."""
        if memory.out_of_memory or how in (_SIMULATED, "measured"):
            return memory.out_of_memory
        needed = self._with_workspaces(memory.peak_bytes)
        if self.profile is None or needed is None or needed <= self.profile.memory_bytes:
            return ""
        lacking = needed - self.profile.memory_bytes
        return f"needs {lacking:,} B more than the device has, {how}"

    def _components(self, case: SweepCase, memory: CaseMemory, how: str) -> tuple[Component, ...]:
        alive = memory.alive
        if self._tracing and how == "measured" and memory.peak_bytes is not None:
            alive = observe(case, self.primed, trace=True).alive
        if not any(alive.values()):
            return ()
        symbols = case.shape.symbols
        stages = {
            stage: [with_dimensions(tensor, symbols) for tensor in tensors]
            for stage, tensors in alive.items()
        }
        return decompose(
            stages,
            peak_bytes=self._with_workspaces(memory.peak_bytes),
            workspace_bytes=self.primed.workspace_bytes,
        )

    def _timed(self, row: Row, case: SweepCase) -> Row:
        if not runs_kernels(self.primed.backend) or case.attention.attend is None:
            return row
        device = self.primed.backend.device
        forward_ms, backward_ms = mean_times(case, device, self._passes, self._warmup)
        return replace(row, forward_ms=forward_ms, backward_ms=backward_ms)

    def _with_workspaces(self, nbytes: int | None) -> int | None:
        return None if nbytes is None else nbytes + self.primed.workspace_bytes

    def _blank(self, case: SweepCase, *, status: str = OK, by: str = "", reason: str = "") -> Row:
        return Row(
            case.attention.name,
            case.B,
            case.H,
            case.N,
            case.d,
            str(case.dtype).removeprefix("torch."),
            case.causal,
            case.backward,
            status,
            by,
            reason,
            workspace_bytes=self.primed.workspace_bytes,
        )


def mean_times(
    case: SweepCase, device: str, passes: int, warmup: int
) -> tuple[float, float | None]:
    """Returns the milliseconds of a forward pass without gradients, and of a backward pass alone.

    Each is the mean of ``passes`` passes after ``warmup``; the device is synchronised around each.
    """
    forward, prepare_backward = timed_passes(case, device)
    forward_ms = _mean_ms(lambda: forward, device, passes, warmup)
    backward_ms = _mean_ms(prepare_backward, device, passes, warmup) if case.backward else None
    return forward_ms, backward_ms


def _mean_ms(
    prepare: Callable[[], Callable[[], Any]], device: str, passes: int, warmup: int
) -> float:
    seconds = 0.0
    for number in range(warmup + passes):
        run = prepare()
        _synchronize(device)
        started = time.perf_counter()
        run()
        _synchronize(device)
        if number >= warmup:
            seconds += time.perf_counter() - started
        del run
    return seconds / passes * 1000


def _synchronize(device: str) -> None:
    import torch

    kind = torch.device(device).type
    if kind == "cuda":
        torch.cuda.synchronize(device)
    elif kind != "cpu":
        torch.accelerator.synchronize()

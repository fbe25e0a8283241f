"""Runs recipes on the null device of this process, and plans the same calls by the rules.

What a call allocates and frees is text: ``out0:24 t0:512 -t0 kept:8519680``. ``out0:24`` is the
storage of the first result and its bytes, ``t0`` scratch, ``-t0`` its free, and ``kept`` memory
that is alive when the operator has ended and that no result has.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from ...nulldevice import counts
from ...profiles import DeviceProfile
from ...torch_releases import Version
from ...units import excerpt
from ..null.program_peaks import record_history, recorded
from ..simulated.attention.sdp_params import BACKENDS
from ..simulated.attention.sdpa import Attention, sdp_params
from ..simulated.attention.select_backend import select_backend
from ..simulated.convolution.cudnn_plans import CudnnPlans
from ..simulated.scratch.op_plan import (
    AllocationPlan,
    Free,
    OpCall,
    Output,
    Planner,
    Temporary,
    Unplanned,
    Workspace,
)
from ..simulated.scratch.workspaces import Workspaces, workspaces
from .described import arguments, new_storages, operator
from .recipes import CHOICE, Recipe, parse


def of_history(entries: Sequence[Mapping[str, Any]], results: Sequence[torch.Tensor]) -> str:
    """Returns the trace of a call from the history that PyTorch's allocator keeps."""
    places = {one.untyped_storage().data_ptr(): place for place, one in enumerate(results)}
    live: dict[int, int] = {}
    events: list[tuple[int, int | None]] = []
    names: dict[int, str] = {}
    for entry in entries:
        if entry["action"] == "alloc":
            live[entry["addr"]] = len(events)
            events.append((len(events), entry["size"]))
        elif entry["action"] == "free_requested" and entry["addr"] in live:
            events.append((live.pop(entry["addr"]), None))
    for address, event in live.items():
        names[event] = f"out{places[address]}" if address in places else "kept"
    count = 0
    for event, size in events:
        if size is not None and event not in names:
            names[event] = f"t{count}"
            count += 1
    return " ".join(f"-{names[e]}" if size is None else f"{names[e]}:{size}" for e, size in events)


def of_plan(
    steps: AllocationPlan, results: Sequence[torch.Tensor], libraries: Workspaces, *, cold: bool
) -> str:
    """Returns the trace of a plan; results that the device does not make have no number."""
    sizes = {step.index: _nbytes(step, results) for step in steps if isinstance(step, Output)}
    made = (index for index, nbytes in sorted(sizes.items()) if nbytes)
    numbers = {index: number for number, index in enumerate(made)}
    words: list[str] = []
    live: dict[str, str] = {}
    count = 0
    for step in steps:
        if isinstance(step, Output):
            if step.index in numbers:
                words.append(f"out{numbers[step.index]}:{sizes[step.index]}")
        elif isinstance(step, Temporary):
            if step.nbytes:
                live[step.name] = f"t{count}"
                words.append(f"t{count}:{step.nbytes}")
                count += 1
        elif isinstance(step, Free):
            words += [f"-{live.pop(step.name)}"] if step.name in live else []
        elif isinstance(step, Workspace) and not libraries.kept:
            words += [f"t{count}:{libraries.of(step.library)[1]}", f"-t{count}"]
            count += 1
        elif isinstance(step, Workspace) and cold:
            words.append(f"kept:{libraries.of(step.library)[1]}")
            cold = False
    return " ".join(words + [f"-{name}" for name in reversed(live.values())])


def is_known(steps: AllocationPlan | None) -> bool:
    """Returns True if a plan has all its sizes."""
    return steps is not None and not any(isinstance(step, Unplanned) for step in steps)


def _nbytes(step: Output, results: Sequence[torch.Tensor]) -> int:
    return results[step.index].untyped_storage().nbytes() if step.nbytes is None else step.nbytes


#: A device that is so full is emptied, so that a call finds it as in a process of its own.
_FULL: Final = 1 << 30
_ASKED: Final = 300
#: Stands for the plan of a call that failed on null: no trace is equal to it.
FAILED: Final = "a call that runs"


@dataclass(frozen=True, slots=True)
class Answer:
    """How the calls of one operator ended, on one device."""

    op: str
    equal: int = 0
    """The calls whose trace on null is the plan's."""
    unplanned: int = 0
    """The calls that no rule plans: nothing is enforced where a program makes them."""
    differs: str = ""
    """The first call whose trace is another one, and both traces; empty if there is none."""
    failed: bool = False
    """True if that call failed on null: its error stands for the trace."""


class NullCalls:
    """The null device of this process, and the rules of one version of PyTorch."""

    def __init__(self, profile: DeviceProfile, version: Version, plan: Planner, cudnn: str) -> None:
        self._profile, self._version, self._plan = profile, version, plan
        self._libraries = workspaces(profile, version, os.environ)
        self._ask = CudnnPlans(profile, version, os.environ, cudnn).workspace
        _warm()

    def answer(self, op: str, lines: Iterable[str]) -> Answer:
        """Returns how the calls of an operator ended."""
        equal = unplanned = 0
        for recipe in map(parse, lines):
            run = self.compared(recipe) if recipe.runs_on(self._profile.name) else None
            if run is None:
                continue
            planned, seen = run
            if planned is None:
                unplanned += 1
            elif planned == seen:
                equal += 1
            else:
                text = f"{recipe} on {self._profile.name}: {seen or 'nothing'}, and the rule says "
                differs = excerpt(text + (planned or "nothing"), _ASKED)
                return Answer(op, equal, unplanned, differs, planned is FAILED)
        return Answer(op, equal, unplanned)

    def compared(self, recipe: Recipe) -> tuple[str | None, str]:
        """Returns the trace of a call by its rule, None without a plan, and that on null.

        A call that fails on null has the trace ``FAILED``, and the error in place of the other.
        """
        why = ""
        with _settings(recipe):
            for _ in range(2):
                try:
                    return self._traces(recipe)
                except _FAILURES as error:
                    why = excerpt(str(error), 80)
                torch.cuda.empty_cache()  # earlier calls may have left too little memory
        return FAILED, f"an error, {why}"

    def _chosen(self, *args: Any, **options: Any) -> str:
        """Returns the backend that the rules choose for attention."""
        params = sdp_params(Attention(*args, **options), self._profile)
        return select_backend(replace(params, version=self._version)).backend or "none"

    def _traces(self, recipe: Recipe) -> tuple[str | None, str]:
        args, kwargs = arguments(recipe, "cuda")
        if recipe.op == CHOICE:
            return self._chosen(*args, **kwargs), BACKENDS[torch._fused_sdp_choice(*args, **kwargs)]
        if torch.cuda.memory_reserved() > _FULL:
            torch.cuda.empty_cache()
        before = counts.unknown_calls()
        results, seen = _recorded(recipe, args, kwargs)
        if counts.unknown_calls() != before:
            return FAILED, "calls of libraries that the null device lacks"
        call = OpCall(
            recipe.op, args, kwargs, results, self._profile, recipe.deterministic, self._version,
            self._ask,
        )  # fmt: skip
        steps = self._plan(call)
        if steps is None or not is_known(steps):
            return None, seen
        return of_plan(steps, results, self._libraries, cold=recipe.cold), seen


_FAILURES: Final = (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError)


def _recorded(
    recipe: Recipe, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[tuple[torch.Tensor, ...], str]:
    """Returns the results with new storages, and the trace of the call."""
    func = operator(recipe.op)
    record_history("all", context=None, clear_history=True)
    try:
        returned = func(*args, **kwargs)
        entries = recorded()[0]
    finally:
        record_history(None)
    results = new_storages([args, kwargs], returned)
    return results, of_history(entries, results)


@contextmanager
def _settings(recipe: Recipe) -> Iterator[None]:
    """Runs the body with the settings of a recipe, and puts the usual ones back."""
    if recipe.cold:
        torch._C._cuda_clearCublasWorkspaces()
    torch.use_deterministic_algorithms(recipe.deterministic)
    torch._C._set_deterministic_fill_uninitialized_memory(False)
    torch.backends.cudnn.allow_tf32 = not recipe.ieee
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
        torch.backends.cudnn.allow_tf32 = True
        if recipe.cold:
            _warm()


def _warm() -> None:
    """Makes the allocations that happen once in a process."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        x = torch.empty(8, 8, dtype=dtype, device="cuda")
        torch.mm(x, x)
    torch.cuda.manual_seed(0)

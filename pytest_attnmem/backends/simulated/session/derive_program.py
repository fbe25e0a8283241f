"""A user's function as a program of its sizes: makes inputs, calls it, perhaps runs backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ....closed_forms.live_sets import Allocated, Freed, Program, Run
from ....errors import AttnMemError, BudgetError, CannotSimulate, SizesError, StartAgain
from ....measurement.held import Held
from ....measurement.qkv_inputs import dtype_of
from ....profiles import DEFAULT_PROFILE, find_profile
from ....symbols.argument_shapes import Argument
from ....units import shown
from ...autograd_engine import RUN_BACKWARD
from ...tracing.dispatch_tracker import raised_at
from ..operators.op_rules import plan, program_only
from ..patched import patched
from .process import process_device
from .simulation import DeviceSimulation

#: Bytes of the device: a program must not run out of memory while its formula is derived.
_UNLIMITED = 1 << 60


@contextmanager
def program(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    *,
    dtype: Any,
    backward: bool,
    profile: str,
    numbers: Sequence[str] = (),
) -> Iterator[Program]:
    """Yields a program that calls ``function`` with ``arguments`` on a simulated device.

    ``numbers`` are sizes that the function takes as keywords. A function that runs a backward pass
    of its own runs with gradients.

    Raises:
        BackendUnavailable: there is no such profile.
    """
    device = replace(find_profile(profile or DEFAULT_PROFILE), memory_bytes=_UNLIMITED)
    simulation = DeviceSimulation(device, process_device(), plan if profile else program_only)
    floating = dtype_of(dtype, "derive")
    trains, failing = [backward], [False]

    def noted(*args: Any, **kwargs: Any) -> Any:
        """Runs a backward pass of the function; notes if it fails where gradients are off."""
        failing[0] = not torch.is_grad_enabled()
        out = run_backward(*args, **kwargs)
        failing[0] = False
        return out

    def run(sizes: Mapping[str, int]) -> Run:
        def call(made: Sequence[Any]) -> Any:
            out = function(*made, **{name: sizes[name] for name in numbers})
            if backward:
                loss = _first_with_gradient(out)
                (loss.sum() if loss.dim() else loss).backward()
            elif not (trains[0] or any(isinstance(one, torch.Tensor) for one in tree_leaves(out))):
                raise BudgetError(f"the function returned {shown(out)}, which has no tensor")
            return out

        try:
            failing[0] = False
            with torch.set_grad_enabled(trains[0]):
                made = [_input(argument, sizes, floating, backward) for argument in arguments]
                for tensor in made:
                    if isinstance(tensor, torch.Tensor):
                        simulation.tape.lose(tensor, "derive gives its inputs no values")
                events, problem = _recorded(simulation, partial(call, made))
        except (AttnMemError, KeyboardInterrupt):
            raise
        except Exception as error:
            if not trains[0] and failing[0]:
                trains[0] = True
                return run(sizes)
            listed = " ".join(f"{name}={size}" for name, size in sizes.items())
            raise SizesError(
                f"the function raised {shown(error, 160)}{raised_at(error)} with {listed}; give the"
                " shape of each argument, and sizes that it takes"
            ) from error
        if problem is not None:
            raise CannotSimulate(problem)
        return tuple(
            Freed(event) if isinstance(event, int) else Allocated(event) for event in events
        )

    with simulation.active():  # once, because entering takes longer than most programs
        run_backward = getattr(*RUN_BACKWARD)
        with patched({RUN_BACKWARD: noted}):
            yield run


def _recorded(
    simulation: DeviceSimulation, program: Callable[[], object]
) -> tuple[list[Held | int], str | None]:
    """Runs a program on an empty device; returns its events and a reason to distrust them.

    An event is an allocation, or the number of the allocation that is freed.
    """
    try:
        return _once(simulation, program, device_named=False)
    except StartAgain:
        return _once(simulation, program, device_named=True)


def _once(
    simulation: DeviceSimulation, program: Callable[[], object], device_named: bool
) -> tuple[list[Held | int], str | None]:
    simulation.restart()
    simulation.placement.named = device_named
    simulation.prime()
    simulation.start()
    try:
        result = program()
        events = [*simulation.device.events()]
    finally:
        problem = simulation.stop().problem
        simulation.placement.outside.put_back(settled=False)  # what the function uses has no change
    del result
    return events, problem


def _input(argument: Any, sizes: Mapping[str, int], floating: Any, backward: bool) -> Any:
    if not isinstance(argument, Argument):
        return argument
    kind = dtype_of(argument.dtype, "derive", floating_only=False) if argument.dtype else floating
    shape = [sizes[dim] if isinstance(dim, str) else dim for dim in argument.dims]
    tensor = torch.empty(shape, dtype=kind, device=process_device().maker.device)
    return tensor.requires_grad_(backward and kind.is_floating_point)


def _first_with_gradient(out: Any) -> torch.Tensor:
    for leaf in tree_leaves(out):
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
            return leaf
    raise BudgetError(f"the function returned {shown(out)}, which has no tensor with a gradient")

"""The arguments of an operator as fakes of one mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

from ...values.notes import leaves
from .fake_tensor import CPU, IMPLICIT_CUDA, SimulatedTensor
from .op_facts import OpFacts
from .op_kinds import is_for_host
from .program_errors import at

if TYPE_CHECKING:
    from .fake_mode import SimulatedFakeMode


def is_own(mode: SimulatedFakeMode, arg: Any) -> bool:
    """Returns True if each tensor in an argument is a fake of that mode."""
    if isinstance(arg, torch.Tensor):
        if type(arg) is SimulatedTensor:
            return arg.__dict__["fake_mode"] is mode
        return getattr(arg, "fake_mode", None) is mode
    if isinstance(arg, (list, tuple)):
        return all(is_own(mode, item) for item in arg)
    return True


def as_fakes(
    mode: SimulatedFakeMode, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments with fakes in the place of other tensors."""
    if not all(is_own(mode, arg) for arg in args):
        args = tuple([_as_fake(mode, arg) for arg in args])
    if not all(is_own(mode, arg) for arg in kwargs.values()):
        kwargs = {name: _as_fake(mode, arg) for name, arg in kwargs.items()}
    return args, kwargs


def _as_fake(mode: SimulatedFakeMode, arg: Any) -> Any:
    if isinstance(arg, torch.Tensor):
        if is_own(mode, arg):
            return arg
        if arg.dim() and any(map(_is_wrapped, leaves(mode.current_call[1]))):
            mode.observer.refused(
                f"a tensor {list(arg.shape)} that is made of numbers{at()}, inside a"
                " transform, is not counted; give it a tensor of the device"
            )
        return mode.observer.to_fake(arg)
    if isinstance(arg, (list, tuple)):
        return type(arg)([_as_fake(mode, item) for item in arg])
    return arg


def _is_wrapped(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and is_functorch_wrapped_tensor(value)


def lacks_device(
    facts: OpFacts, args: tuple[Any, ...], kwargs: Mapping[str, Any], call: tuple[Any, ...]
) -> bool:
    """Returns True if C++ code makes a tensor, not a single number, without a device.

    It has the device of the tensors among the arguments of the program's ``call``, on the host too.
    """
    if facts.factory:
        return not is_for_host(args, kwargs) and not _all_on_host(call)
    return facts.lift and bool(args[0].dim())


def _all_on_host(call: tuple[Any, ...]) -> bool:
    """Returns True if there are tensors in the arguments, and the program put each on the host.

    A single number is on the host of itself.
    """
    tensors = [leaf for leaf in leaves(call) if isinstance(leaf, torch.Tensor)]
    fakes = [tensor for tensor in tensors if type(tensor) is SimulatedTensor and tensor.dim()]
    return bool(fakes) and all(fake._fake_device is CPU for fake in fakes)


def is_from_data(mode: SimulatedFakeMode, tensor: Any) -> bool:
    """Returns True if the caller is ``torch.Tensor([1.0])`` or another type with data.

    From PyTorch 2.15 on, it moves the tensor that it made to the device of its type, the host. No
    other C++ code does so, but the backward of a move.
    """
    on_device = tensor.__dict__.get("_fake_device") is IMPLICIT_CUDA
    return on_device and not mode.function_depth and torch._C._current_graph_task_id() == -1

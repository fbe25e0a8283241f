"""Moves of modules to and from the device that keep the identity of their parameters.

On a CUDA build, ``Module.to`` changes the data of a parameter, so optimizers and tied weights keep
it. PyTorch does not do so between kinds of tensors, such as a plain and a simulated tensor. It does
not do so either where ``torch.__future__`` asks for new parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from ...errors import CannotSimulate
from .fake_tensor import META, SimulatedTensor
from .program_errors import at
from .refused_subclasses import PLAIN, refusal


def apply_in_place(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns ``Module._apply`` that puts what a parameter becomes into the same object."""

    def _apply(module: Any, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        if recurse:
            for child in module.children():
                child._apply(fn)
        with torch.no_grad():
            made = {id(p): fn(p) for p in module._parameters.values() if p is not None}
            # A buffer with two names becomes two: nothing changes the object itself.
            buffers = {name: fn(b) for name, b in module._buffers.items() if b is not None}
        if not any(type(other) is SimulatedTensor for other in (*made.values(), *buffers.values())):
            made.update((id(module._buffers[name]), buffer) for name, buffer in buffers.items())
            return original(module, lambda x: made[id(x)] if id(x) in made else fn(x), False)
        if isinstance(module, torch.jit.ScriptModule):  # C++ code holds its parameters
            raise CannotSimulate(
                f"a script that is moved to the device{at()}, outside the measured code, cannot be"
                " simulated; move the model before torch.jit.script"
            )
        overwrites = torch.__future__.get_overwrite_module_params_on_conversion()
        for name, parameter in [*module._parameters.items()]:
            if parameter is not None and overwrites:
                put(module, name, made[id(parameter)], parameter, fn)
            elif parameter is not None and made[id(parameter)] is not parameter:
                become(parameter, made[id(parameter)], fn)
        for name, buffer in buffers.items():
            module._buffers[name] = buffer
        return module

    return _apply


def put(module: Any, name: str, moved: Any, tensor: Any, fn: Callable[[Any], Any]) -> None:
    """Puts what a tensor became into a module as another object, as ``Module._apply`` does."""
    if name in module._buffers:
        module._buffers[name] = moved
        return
    module._parameters[name] = torch.nn.Parameter(moved, tensor.requires_grad)
    if tensor.grad is not None:
        with torch.no_grad():
            module._parameters[name].grad = fn(tensor.grad)


def swapping(
    original: Callable[..., None], as_fakes: Callable[[tuple[Any, ...]], tuple[Any, ...]]
) -> Callable[..., None]:
    """Returns ``torch.utils.swap_tensors`` for a simulated tensor and another of either kind."""

    def swap_tensors(t1: Any, t2: Any) -> None:
        t1, t2 = as_fakes((t1, t2))
        original(t1, t2)
        for tensor in (t1, t2):
            if type(tensor) is FakeTensor:  # so PyTorch sees the class of the other
                tensor.__class__ = SimulatedTensor  # type: ignore[assignment]

    return swap_tensors


def become(tensor: Any, other: Any, fn: Callable[[Any], Any]) -> None:
    """Makes ``tensor`` a leaf with the storage of ``other``; ``fn`` moves its gradient.

    Raises:
        CannotSimulate: it is of a subclass of the program.
    """
    gradient, required = tensor.grad, tensor.requires_grad
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    tensor.grad = None
    other = other.detach()
    was_simulated = type(tensor) is SimulatedTensor
    if not was_simulated and type(tensor) not in PLAIN:
        raise other.fake_mode.observer.refused(refusal(type(tensor)))
    if not was_simulated:
        tensor.__class__ = SimulatedTensor
    vars(tensor).update(vars(other))
    torch._C._swap_tensor_impl(tensor, other)
    if was_simulated and not other.is_inference():  # no graph holds one of inference mode
        _let_go(other)
    if is_parameter:
        tensor._is_param = True
    tensor.requires_grad_(required)
    if gradient is not None:
        with torch.no_grad():
            tensor.grad = fn(gradient)


def _let_go(moved: Any) -> None:
    """Frees the memory of a tensor that was moved, though a graph of autograd may hold it.

    On a device the tensor in the graph has moved too.
    """
    shape, stride = moved.shape, moved.stride()
    as_meta = in_kernel_invocation_manager(moved.fake_mode)
    with torch._C.DisableTorchFunction(), torch.no_grad(), as_meta:
        nowhere = torch.empty_strided(shape, stride, dtype=moved.dtype, device=META)
        with _unsafe_preserve_version_counter(moved):
            moved.set_(nowhere.untyped_storage(), 0, shape, stride)

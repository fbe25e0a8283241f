"""What the arguments of a program's call say: a device, an index, a single number."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from .transforms import unwrapped

#: Factories that put a single number on the host, as in a program for CUDA.
_FROM_A_NUMBER = frozenset({torch.tensor, torch.as_tensor, torch.asarray, torch.scalar_tensor})
_FROM_A_SIZE = frozenset(
    {torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn}
)

#: Factories that return the tensor that they get, if it is on the device already.
SHARING = frozenset({torch.as_tensor, torch.asarray})

#: Types of numbers and of the other parts of an index that hold no tensor.
_PLAIN = frozenset({int, float, bool, slice, type(None), type(...)})


def of_devices() -> dict[Any, Callable[..., Any]]:
    """Returns the functions in the place of those that make or read a device."""

    def get_device(tensor: Any) -> int:
        return unwrapped(tensor).get_device()  # type: ignore[no-any-return]

    return {
        torch.device: _device,
        torch.get_device: get_device,
        torch.Tensor.get_device: get_device,
    }


def _device(*args: Any, **kwargs: Any) -> torch.device:
    """Returns a device; a number is one of the accelerator, which a build without CUDA lacks."""
    if len(args) == 1 and not kwargs:
        if type(args[0]) is int:
            return torch.device("cuda", args[0])
        if isinstance(args[0], torch.device):
            return args[0]  # the same object: it tells whether the program named it
    return torch.device(*args, **kwargs)


def names_meta(device: Any) -> bool:
    """Returns True for the device ``meta``, or its name."""
    return isinstance(device, (str, torch.device)) and torch.device(device).type == "meta"


def is_plain(index: Any) -> bool:
    """Returns True for a slice, a number or a tuple of them, and others without elements."""
    return type(index) in _PLAIN or (type(index) is tuple and _PLAIN.issuperset(map(type, index)))


def target(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Returns the device that the arguments of ``Tensor.to`` name, or None, and what else."""
    device = kwargs.pop("device", None)
    rest = list(args)
    if rest and (other := rest[0]) is not None:
        if isinstance(other, torch.Tensor):
            rest[0] = other.dtype
            device = unwrapped(other).device
        elif isinstance(other, (str, torch.device, int)):
            device = rest.pop(0)
    elif rest:
        rest.pop(0)
    kwargs.update(zip(("dtype", "non_blocking", "copy"), rest, strict=False))
    if kwargs.get("dtype") is None:
        kwargs.pop("dtype", None)
    return device, kwargs


def may_hold_tensors(arg: Any) -> bool:
    """Returns False for an argument that neither is a tensor nor contains one."""
    return isinstance(arg, (torch.Tensor, list, tuple)) and not is_plain(arg)


def is_number(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Returns True if a factory makes a single number."""
    first = args[0] if args else kwargs.get("data", kwargs.get("size"))
    if func in _FROM_A_NUMBER:
        return isinstance(first, (int, float, complex))
    return func in _FROM_A_SIZE and isinstance(first, (tuple, list)) and len(first) == 0


def is_array(value: Any, kwargs: dict[str, Any]) -> bool:
    """Returns True for an array of NumPy's that a factory makes a tensor of as it is."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray):
        return False
    dtype = kwargs.get("dtype")
    same = dtype is None or str(dtype).removeprefix("torch.") == str(value.dtype)
    return same and not (kwargs.get("copy") or kwargs.get("requires_grad"))

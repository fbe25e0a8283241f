"""Constructors of PyTorch's first years, which C++ code runs on a real device only.

Sources: torch/csrc/tensor/python_tensor.cpp and torch/csrc/utils/tensor_new.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from .deterministic_ops import algorithms
from .fake_tensor import CUDA
from .moves import TYPES
from .transforms import unwrapped

_range: Final = torch.range


#: Calls a factory with arguments and keywords.
Call = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


def _called(factory: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return factory(*args, **kwargs)


def _made(dtype: torch.dtype, device: torch.device, args: tuple[Any, ...], call: Call) -> Any:
    """Makes a tensor of sizes, of data, or of another tensor's memory."""
    given = {"dtype": dtype, "device": device}
    if len(args) != 1 or isinstance(args[0], (int, torch.Size)):
        sizes = args[0] if args and isinstance(args[0], torch.Size) else args
        return call(torch.empty, (sizes or (0,),), given)
    if isinstance(args[0], (torch.UntypedStorage, torch.TypedStorage)):
        return call(torch.asarray, args, given)
    if not isinstance(args[0], torch.Tensor):
        return call(torch.tensor, args, given)
    if args[0].dtype != dtype or args[0].device != device:
        raise TypeError(f"expected {dtype} on {device} (got {args[0].type()})")
    return args[0].detach()


def new_like(call: Call) -> Callable[..., Any]:
    """Returns ``Tensor.new`` of simulated tensors, which makes tensors by ``call``."""

    def new(tensor: Any, *args: Any, device: Any = None) -> Any:
        own = unwrapped(tensor).device
        return _made(tensor.dtype, own if device is None else device, args, call)

    return new


class _TensorType(type):
    """The type of ``torch.cuda.FloatTensor``: calls make tensors, ``isinstance`` asks tensors."""

    dtype: torch.dtype
    layout = torch.strided
    is_cuda, is_sparse = True, False

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return _made(cls.dtype, CUDA, args, _called)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch.Tensor) and value.is_cuda and value.dtype == cls.dtype


def legacy_constructors() -> dict[tuple[Any, str], Any]:
    """Returns ``torch.cuda.FloatTensor`` and its like, and ``torch.range``, by owner and name."""
    found: dict[tuple[Any, str], Any] = {(torch, "range"): _ranged}
    for kind, dtype in TYPES.items():
        name = f"{kind}Tensor"
        if hasattr(torch.cuda, name):
            members = {"dtype": dtype, "__module__": "torch.cuda"}
            found[torch.cuda, name] = _TensorType(name, (), members)
    return found


def _ranged(start: Any, end: Any, step: Any = 1, **kwargs: Any) -> Any:
    """Runs ``torch.range``, which resizes a tensor, as deterministic algorithms notice."""
    device = kwargs.get("device")
    if device is None or torch.device(device).type != "cuda":
        return _range(start, end, step, **kwargs)
    count = int((end - start) / step) + 1
    last = start + (count - 1) * step
    if not algorithms() or "out" in kwargs:
        return torch.linspace(start, last, count, **kwargs)
    differentiable = kwargs.pop("requires_grad", False)
    made = torch.empty(0, **kwargs).resize_(count)
    return torch.linspace(start, last, count, out=made).requires_grad_(differentiable)

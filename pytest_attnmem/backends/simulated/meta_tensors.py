"""Tensors that a program puts on the device ``meta``: PyTorch's own, without memory and values.

Libraries make a model there before they load its weights. PyTorch's C++ code sees simulated
tensors on ``meta`` too, so the tensors of a program stay apart: no operator on them is simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_map_only

from .fake_tensor import META, SimulatedTensor
from .wrapped_tensors import is_wrapper


def is_meta(value: Any) -> bool:
    """Returns True for a tensor that a program put on ``meta``."""
    return (
        isinstance(value, torch.Tensor)
        and type(value) is not SimulatedTensor
        and not is_wrapper(value)
        and value.device == META
        and not is_functorch_wrapped_tensor(value)  # its C++ code sees the device of its tensor
    )


def all_meta(args: tuple[Any, ...]) -> bool:
    """Returns True if each tensor is on ``meta``, and there is one."""
    found = False
    for arg in args:
        for value in arg if type(arg) in (list, tuple) else (arg,):
            if isinstance(value, torch.Tensor):
                if not is_meta(value):
                    return False
                found = True
    return found


def on_meta(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    """Returns what a move of a tensor to ``meta`` returns."""
    with no_dispatch():
        return torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=dtype or tensor.dtype, device=META
        )


def as_on_meta(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Returns what a call makes on ``meta`` of tensors of the device: ``zeros_like(x)``."""
    moved = tree_map_only(SimulatedTensor, lambda tensor: on_meta(tensor, None), (args, kwargs))
    with no_dispatch():
        return func(*moved[0], **moved[1])


def leaves_meta(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Returns True if a call on tensors of ``meta`` names another device.

    Raises:
        NotImplementedError: it moves a tensor there, as PyTorch says.
    """
    name = getattr(func, "__name__", "")
    device = kwargs.get("device", args[1] if name == "to" and len(args) > 1 else None)
    if name in ("cuda", "cpu"):
        device = name
    if isinstance(device, bool) or not isinstance(device, (str, int, torch.device)):
        return False
    if not isinstance(device, int) and torch.device(device).type == "meta":
        return False
    if name in ("to", "cuda", "cpu"):
        raise NotImplementedError(
            "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty()"
            " instead of torch.nn.Module.to() when moving module from meta to a different device."
        )
    return True

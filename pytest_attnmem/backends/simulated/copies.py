"""Copies of simulated tensors by the module ``copy``: they have the program's attributes too."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

from .program_attributes import attributes


def deep_copy(tensor: Any, memo: dict[Any, Any]) -> Any:
    """Returns what ``copy.deepcopy`` returns (``__deepcopy__`` of Tensor and Parameter)."""
    if id(tensor) in memo:
        return memo[id(tensor)]
    if not tensor.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the"
            " deepcopy protocol at the moment."
        )
    is_parameter = getattr(tensor, "_is_param", False)
    with torch.no_grad():
        if is_parameter:
            copied = tensor.detach().clone()
            copied._is_param = True
        else:
            copied = _on_copied_storage(tensor, memo.setdefault("torch", {}))
    copied.requires_grad_(tensor.requires_grad)
    if not is_parameter:
        if tensor.grad is not None:
            copied.grad = copy.deepcopy(tensor.grad, memo)
        vars(copied).update(copy.deepcopy(attributes(tensor), memo))
    memo[id(tensor)] = copied
    return copied


def shallow_copy(tensor: Any) -> Any:
    """Returns what ``copy.copy`` returns: a tensor that shares the memory."""
    copied = tensor.detach().requires_grad_(tensor.requires_grad)
    if getattr(tensor, "_is_param", False):
        copied._is_param = True
    vars(copied).update(attributes(tensor))
    return copied


def of_tensors_from_outside(
    as_fakes: Callable[[tuple[Any, ...]], tuple[Any, ...]],
) -> dict[tuple[Any, str], Any]:
    """Returns the patches, by owner and name, of ``copy.copy`` and of what ``pickle`` writes."""
    reduce_ex: Any = torch.Tensor.__reduce_ex__

    def copied(tensor: Any) -> Any:
        if is_functorch_wrapped_tensor(tensor):
            return reduce_ex(tensor, 4)  # raises, because it has no storage
        return shallow_copy(as_fakes((tensor,))[0])

    def reduced(tensor: Any, protocol: Any) -> Any:  # it asks no mode about a plain tensor
        if type(tensor) is torch.Tensor and not is_functorch_wrapped_tensor(tensor):
            return as_fakes((tensor,))[0].__reduce_ex__(protocol)
        return reduce_ex(tensor, protocol)

    known: dict[Any, Any] = copy._copy_dispatch  # type: ignore[attr-defined]
    kinds = (torch.Tensor, torch.nn.Parameter)
    return {
        (copy, "_copy_dispatch"): {**known, **dict.fromkeys(kinds, copied)},
        (torch.Tensor, "__reduce_ex__"): reduced,
    }


def _on_copied_storage(tensor: Any, memo: dict[int, Any]) -> Any:
    """Returns a copy that shares a whole copied storage with the copies of other views.

    See ``Tensor.__deepcopy__`` in torch/_tensor.py, which makes a number besides.
    """
    storage = tensor.untyped_storage()
    whole = memo.get(storage._cdata)
    if whole is None:
        count = storage.nbytes() // tensor.element_size()
        whole = memo[storage._cdata] = tensor.detach().as_strided((count,), (1,), 0).clone()
    number = tensor.new_empty([])
    copied = whole.view(tensor.dtype).as_strided(
        tensor.shape, tensor.stride(), tensor.storage_offset()
    )
    del number
    return copied.detach()

"""Rules for joining and splitting chunks of tensors (aten/src/ATen/native/cuda/TensorShape.cu)."""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import Any, Final

import torch

from .op_plan import AllocationPlan, OpCall, Rule, argument
from .plan_parts import allocate_outputs, temporary, wrap_dim

#: Bytes that a block copies: 128 threads, 16 bytes each.
_BLOCK: Final = 2048
_NUMBER: Final = 8
#: Lists with a number for each tensor, and one more number in two of them, or in one.
_LISTS: Final = 6
_LISTS_OF_SPLIT: Final = 4
#: The dtypes of tensors and result that one kernel takes, where they are not the same.
_CAST: Final = (torch.bfloat16, torch.float32)


def _chunk_cat(call: OpCall) -> AllocationPlan | None:
    """Plans the sizes and places of the chunks, which the kernel reads from the device."""
    tensors: list[torch.Tensor] = call.args[0]
    dim, chunks = argument(call, "dim"), argument(call, "num_chunks")
    result: Any = call.outputs[0] if call.outputs else call.kwargs["out"]
    if not _are_plain(tensors, result):
        return None
    dim = wrap_dim(dim, tensors[0].dim())
    blocks = 0
    for tensor in tensors:
        length = -(-tensor.shape[dim] // chunks)
        nbytes = length * prod(tensor.shape[dim + 1 :]) * result.dtype.itemsize
        blocks += -(-nbytes // _BLOCK)
    numbers = _LISTS * len(tensors) + 2 + blocks
    return (*allocate_outputs(call), *temporary("sizes", numbers * _NUMBER))


def _are_plain(tensors: list[torch.Tensor], result: torch.Tensor) -> bool:
    """Returns True if one kernel copies all: contiguous tensors of one dtype."""
    if result.dtype != tensors[0].dtype and (tensors[0].dtype, result.dtype) != _CAST:
        return False
    return result.is_contiguous() and all(
        tensor.is_contiguous() and tensor.numel() and tensor.dtype == tensors[0].dtype
        for tensor in tensors
    )


def _split_with_sizes_copy(call: OpCall) -> AllocationPlan | None:
    """Plans the addresses and places of the parts, which the kernel reads from the device."""
    source: torch.Tensor = call.args[0]
    dim, outputs = argument(call, "dim"), call.kwargs["out"]
    same = all(out.dtype == source.dtype for out in outputs)
    if not same or not _are_plain([source, *outputs], source):
        return None
    dim = wrap_dim(dim, source.dim())
    row = prod(source.shape[dim + 1 :]) * source.dtype.itemsize
    blocks = sum(-(-size * row // _BLOCK) for size in argument(call, "split_sizes"))
    numbers = _LISTS_OF_SPLIT * len(outputs) + 1 + blocks
    return temporary("places", numbers * _NUMBER)


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten._chunk_cat.default": _chunk_cat,
        "aten._chunk_cat.out": _chunk_cat,
        "aten.split_with_sizes_copy.out": _split_with_sizes_copy,
    }
)

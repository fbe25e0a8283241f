"""Rules for joining chunks of tensors (aten/src/ATen/native/cuda/TensorShape.cu)."""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ..op_arguments import argument
from ..op_plan import AllocationPlan, OpCall, Rule
from .plan_steps import allocate_outputs, temporary
from .tensor_bytes import wrap_dim

if TYPE_CHECKING:
    import torch

#: Bytes that a block copies: 128 threads, 16 bytes each.
_BLOCK: Final = 2048
_NUMBER: Final = 8
#: Lists with a number for each tensor, and one more number in two of them.
_LISTS: Final = 6


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
        nbytes = length * prod(tensor.shape[dim + 1 :]) * tensor.dtype.itemsize
        blocks += -(-nbytes // _BLOCK)
    numbers = _LISTS * len(tensors) + 2 + blocks
    return (*allocate_outputs(call), *temporary("sizes", numbers * _NUMBER))


def _are_plain(tensors: list[torch.Tensor], result: torch.Tensor) -> bool:
    """Returns True if one kernel copies all: contiguous tensors of one dtype."""
    return result.is_contiguous() and all(
        tensor.is_contiguous() and tensor.numel() and tensor.dtype == tensors[0].dtype
        for tensor in tensors
    )


RULES: Final = MappingProxyType[str, Rule](
    {"aten._chunk_cat.default": _chunk_cat, "aten._chunk_cat.out": _chunk_cat}
)

"""The parts of plans: steps, and the sizes, dtypes and layouts of tensors, as kernels need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from . import workspaces
from .op_plan import AllocationPlan, Free, OpCall, Output, Temporary, Workspace
from .strides import kept_strides

HALVES = (torch.float16, torch.bfloat16)


def dense_bytes(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> int:
    """Returns the bytes of the elements without gaps, in ``dtype`` or in the tensor's own."""
    return tensor.numel() * (dtype or tensor.dtype).itemsize


def copy_bytes(tensor: torch.Tensor) -> int:
    """Returns the bytes of the copy that ``contiguous()`` makes; 0 if it makes none."""
    return 0 if tensor.is_contiguous() else dense_bytes(tensor)


def suggested_format(tensor: torch.Tensor) -> torch.memory_format:
    """Returns the format that a kernel for images takes from the strides of its input."""
    return format_of(tensor.shape, tensor.stride())


def format_of(shape: Sequence[int], strides: Sequence[int]) -> torch.memory_format:
    """Returns the memory format that PyTorch reads from a tensor's strides.

    See ``is_channels_last_strides_2d_s4`` in c10/core/MemoryFormat.h: strides with gaps count too.
    """
    rank = len(shape)
    if rank not in (4, 5) or strides[1] == 0:
        return torch.contiguous_format
    least = 0
    for dim in (1, *range(rank - 1, 1, -1), 0):
        batch_as_channel = dim == 0 and least == strides[1]
        if shape[dim] == 0 or strides[dim] < least or batch_as_channel:
            return torch.contiguous_format
        least = strides[dim] * max(shape[dim], 1)
    return torch.channels_last if rank == 4 else torch.channels_last_3d


def format_copy_bytes(tensor: torch.Tensor, memory_format: torch.memory_format) -> int:
    """Returns the bytes of the copy that ``contiguous(memory_format=…)`` makes; 0 if none.

    A tensor whose rank the format does not have is made contiguous.
    """
    ranks = {torch.channels_last: 4, torch.channels_last_3d: 5}
    fits = ranks.get(memory_format, tensor.dim()) == tensor.dim()
    wanted = memory_format if fits else torch.contiguous_format
    return 0 if tensor.is_contiguous(memory_format=wanted) else dense_bytes(tensor)


def accumulate_type(dtype: torch.dtype) -> torch.dtype:
    """Returns the dtype in which CUDA accumulates sums (ATen/AccumulateType.h)."""
    return torch.float32 if dtype in HALVES else dtype


def wrap_dim(dim: int, rank: int) -> int:
    """Returns the dimension, counted from the front."""
    return dim % rank if rank else 0


Layout = tuple[tuple[int, ...], tuple[int, ...], int]


def layout(tensor: torch.Tensor, like: torch.dtype | None = None) -> Layout:
    """Returns shape, strides and first element of a tensor, or of its copy by ``to(like)``."""
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    if like is None:
        return shape, strides, int(tensor.storage_offset())
    return shape, kept_strides(shape, strides), 0


def row_stride(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """Returns the stride of the tensor viewed as one row; None if it has no such view."""
    stride, extent = 1, 1
    for size, step in reversed([pair for pair in zip(shape, strides, strict=True) if pair[0] != 1]):
        if extent == 1:
            stride = step
        elif step != stride * extent:
            return None
        extent *= size
    return stride


#: The workspace that a product takes from either library.
CUBLAS = Workspace(workspaces.CUBLAS)
CUBLASLT = Workspace(workspaces.CUBLASLT)


def allocate_outputs(call: OpCall, *order: int) -> AllocationPlan:
    """Returns the outputs that are new, in the given order or in that of the results.

    That is the plan of an operator that allocates nothing else.
    """
    count = len(call.outputs)
    return tuple(Output(index) for index in order or range(count) if index < count)


def temporary(name: str, nbytes: int, *inner: AllocationPlan) -> AllocationPlan:
    """Returns the inner plans with a temporary that is alive around them."""
    steps = tuple(step for plan in inner for step in plan)
    return (Temporary(name, nbytes), *steps, Free(name)) if nbytes else steps


def temporaries(sizes: Mapping[str, int], *inner: AllocationPlan) -> AllocationPlan:
    """Returns the inner plans with temporaries around them, the first one outermost."""
    steps = tuple(step for plan in inner for step in plan)
    for name, nbytes in reversed([*sizes.items()]):
        steps = temporary(name, nbytes, steps)
    return steps


def contiguous(given: Mapping[str, torch.Tensor | None], *inner: AllocationPlan) -> AllocationPlan:
    """Returns the inner plans with copies around them of the tensors that are not contiguous."""
    sizes = {f"contiguous {name}": copy_bytes(x) for name, x in given.items() if x is not None}
    return temporaries(sizes, *inner)

"""Rules for batch normalization by PyTorch's own kernels (ATen's cuda/Normalization.cu).

Contiguous images and images in channels-last format have kernels of their own. A tensor of another
layout is reduced and scaled by general loops; its gradient is computed from contiguous tensors.
cuDNN's kernels are not modelled.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import torch

from .op_plan import AllocationPlan, Free, OpCall, Output, Rule, Temporary, argument
from .plan_parts import accumulate_type, dense_bytes, row_stride, temporaries, temporary
from .reduction_launch import blocks_plan, power_of_two
from .reduction_ops import loop_over, moments_kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_INDEXED: Final = 2**31 - 2  # elements, by 32-bit integers
_TILE: Final = 32
_THREADS: Final = 512
_PER_THREAD: Final = 16
_MOST_ROWS: Final = 128
_FEWEST_ROWS: Final = 8
_SEMAPHORE: Final = 4
#: Partial results of a channel: Welford's four numbers, and the two sums of the backward.
_MOMENTS: Final = 4
_SUMS: Final = 2


def _forward(call: OpCall) -> AllocationPlan | None:
    """Plans the result and both statistics, which have their size in evaluation too."""
    x, weight, bias = call.args[:3]
    if not _is_indexed(x) or len(call.outputs) < 3:
        return None
    dtype = accumulate_type(x.dtype)
    acc = dtype.itemsize
    nbytes = x.shape[1] * acc
    outputs = (Output(0), Output(1, nbytes), Output(2, nbytes))
    trains = argument(call, "training") is not False and "no_training" not in call.op
    kernels = _kernels_for(x)
    if kernels is torch.channels_last and trains:
        return (*outputs, *_staging(x, _MOMENTS * acc))
    if kernels is not None:
        return outputs
    moments = _moments(call, x, dtype) if trains else ()
    scale, shift = (acc if given is None else 0 for given in (weight, bias))
    return (*outputs, *moments, *temporary("scale", scale, temporary("shift", shift)))


def _moments(call: OpCall, x: torch.Tensor, dtype: torch.dtype) -> AllocationPlan:
    """Plans the mean and variance of each channel; an input of bfloat16 is cast to float."""
    dims, size = (0, *range(2, x.dim())), dtype.itemsize
    like = dtype if x.dtype == torch.bfloat16 else None
    loop = loop_over(x, dims, False, [size, size], like)
    steps = blocks_plan(loop, moments_kernel(dtype), call.profile)
    return temporary("cast", dense_bytes(x, dtype) if like else 0, steps)


def _backward(call: OpCall) -> AllocationPlan | None:
    """Plans the gradients: by one kernel, or by sums over each channel and then elementwise."""
    grad, x, weight, _mean, variance, _saved, invstd, train, _eps, wanted = call.args
    acc = accumulate_type(x.dtype)
    if not (_is_indexed(x) and _is_indexed(grad)):
        return None
    outputs = _gradients(call, wanted)
    if outputs is None or (weight is None and (wanted[1] or wanted[2])):
        return None
    nbytes = x.shape[1] * acc.itemsize
    known = train or (invstd is not None and invstd.numel() > 0)
    if not known and variance.dtype != acc:
        return None
    from_variance = 0 if known else nbytes
    if not (train or wanted[1] or wanted[2]):
        return temporary("invstd", from_variance, outputs)
    if not _is_channels_last(x):
        if weight is not None and variance is not None and weight.dtype != variance.dtype:
            return None  # CUDA refuses statistics of another dtype than the weight
        one_kernel = wanted[0]
        return temporary("invstd", 0 if one_kernel else from_variance, _by_rows(x, grad, outputs))
    if weight is not None and _is_channels_last(grad) and list(wanted[1:]) != [True, True]:
        return None  # CUDA returns a gradient that nobody asked for
    if not wanted[0] and not _is_channels_last(grad):
        return temporary("invstd", from_variance, _by_rows(x, grad, outputs))
    sums = _sums_and_gradients(x, grad, weight, outputs, acc.itemsize)
    return temporary("invstd", from_variance, sums)


def _gradients(call: OpCall, wanted: Sequence[bool]) -> AllocationPlan | None:
    """Returns the gradients of input, weight and bias; the unwanted have no bytes, or no output."""
    asked = [index for index in range(3) if wanted[index]]
    if len(call.outputs) == 3:
        return tuple(Output(index, None if wanted[index] else 0) for index in range(3))
    if len(call.outputs) != len(asked):
        return None
    return tuple(map(Output, range(len(asked))))


def _by_rows(x: torch.Tensor, grad: torch.Tensor, inner: AllocationPlan) -> AllocationPlan:
    """Plans copies of tensors that have no view with all elements of a channel in one row."""
    sizes = {
        name: dense_bytes(t) if row_stride(t.shape[2:], t.stride()[2:]) is None else 0
        for name, t in (("rows", x), ("rows of the gradient", grad))
    }
    return temporaries(sizes, inner)


def _sums_and_gradients(
    x: torch.Tensor,
    grad: torch.Tensor,
    weight: torch.Tensor | None,
    outputs: AllocationPlan,
    size: int,
) -> AllocationPlan:
    """Plans two sums over each channel, the gradients of weights, then that of the input."""
    nbytes = x.shape[1] * size
    sums = (Temporary("dy", nbytes), Temporary("dy by x", nbytes))
    first = 0 if len(outputs) == 2 else 1  # both weights alone
    of_input, of_weights = outputs[:first], outputs[first:]
    if _is_channels_last(grad):
        weights = () if weight is None else of_weights
        reduced = (*sums, *weights, *_staging(x, _SUMS * size))
    else:
        reduced = _by_rows(x, grad, (*sums, *of_weights))
    general = _kernels_for(x) is None or _kernels_for(x) is not _kernels_for(grad)
    scale = temporary("scale", size if general and weight is None else 0, of_input)
    return (*reduced, *scale, Free("dy by x"), Free("dy"))


def _is_indexed(x: torch.Tensor) -> bool:
    """Returns True if 32-bit integers index the elements, of which there are some."""
    last = sum((size - 1) * step for size, step in zip(x.shape, x.stride(), strict=True))
    return 0 < x.numel() <= _MOST_INDEXED and last <= _MOST_INDEXED


def _kernels_for(x: torch.Tensor) -> torch.memory_format | None:
    """Returns the format whose kernels take the tensor, or None (``batch_norm_choose_impl``)."""
    if x.is_contiguous():
        return torch.channels_last if x.stride(1) == 1 else torch.contiguous_format
    last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if last else None


def _is_channels_last(x: torch.Tensor) -> bool:
    """Returns True if the backward treats a tensor as one in channels-last format.

    See ``batch_norm_use_channels_last_kernels``: volumes count, and images with one channel.
    """
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    fits = x.dim() in formats and x.is_contiguous(memory_format=formats[x.dim()])
    return fits or (x.is_contiguous() and x.stride(1) == 1)


def _staging(x: torch.Tensor, nbytes: int) -> AllocationPlan:
    """Plans the buffers of blocks that share channels (``flexible_launch_configs``)."""
    channels = x.shape[1]
    rows, columns = _blocks(x.numel() // channels, channels)
    if rows == 1:
        return ()
    semaphores = temporary("semaphores", columns * _SEMAPHORE)
    return temporary("partial results", nbytes * channels * rows, semaphores)


def _blocks(elements: int, channels: int) -> Sequence[int]:
    """Returns the rows and columns of blocks for so many elements of each channel."""
    width = min(power_of_two(channels), _TILE)
    height = min(power_of_two(-(-elements // _PER_THREAD)), _THREADS // width)
    if width * height != _THREADS:
        width = min(power_of_two(channels), _THREADS // height)
    rows = min(-(-elements // (height * _PER_THREAD)), _MOST_ROWS)
    return (1 if rows < _FEWEST_ROWS else rows, -(-channels // width))


def _by_cudnn(call: OpCall) -> AllocationPlan | None:
    """Plans the result in evaluation; in training cuDNN takes a workspace besides."""
    if argument(call, "training"):
        return None
    return (Output(0), *(Output(place, 0) for place in range(1, len(call.outputs))))


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.cudnn_batch_norm.default": _by_cudnn,
        "aten.native_batch_norm.default": _forward,
        "aten._native_batch_norm_legit.default": _forward,
        "aten._native_batch_norm_legit.no_stats": _forward,
        "aten._native_batch_norm_legit_no_training.default": _forward,
        "aten.native_batch_norm_backward.default": _backward,
    }
)

"""Rules for batch normalization by PyTorch's own kernels (ATen's cuda/Normalization.cu).

A kernel reads contiguous images, or images in channels-last format; other layouts, and formats that
differ, are not modelled. cuDNN's kernels are not either.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import torch

from ..op_arguments import argument
from ..op_plan import AllocationPlan, OpCall, Output, Rule
from .plan_steps import temporary
from .tensor_bytes import accumulate_type

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    x: torch.Tensor = call.args[0]
    channels_last = _channels_last(x)
    if channels_last is None or len(call.outputs) < 3:
        return None
    acc = accumulate_type(x.dtype).itemsize
    nbytes = x.shape[1] * acc
    outputs = (Output(0), Output(1, nbytes), Output(2, nbytes))
    training = argument(call, "training")
    if training is False or "no_training" in call.op or not channels_last:
        return outputs
    return (*outputs, *_staging(x, _MOMENTS * acc))


def _backward(call: OpCall) -> AllocationPlan | None:
    grad, x, weight, _mean, variance, _saved, invstd, train, _eps, wanted = call.args
    channels_last = _channels_last(x)
    if channels_last is None or _channels_last(grad) is not channels_last:
        return None
    acc = accumulate_type(x.dtype)
    if variance is not None and variance.dtype != acc and not train:
        return None
    nbytes = x.shape[1] * acc.itemsize
    outputs = tuple(
        Output(index) if index >= 3 or wanted[index] else Output(index, 0)
        for index in range(len(call.outputs))
    )
    if len(outputs) < 3 and not all(wanted[: len(outputs)]):
        return None
    known = train or (invstd is not None and invstd.numel() > 0)
    from_variance = 0 if known else nbytes
    elementwise = not train and wanted[0] and not (wanted[1] or wanted[2])
    if not channels_last:
        fused = wanted[0] and wanted[1]
        return temporary("invstd", 0 if fused else from_variance, outputs)
    if elementwise:
        return temporary("invstd", from_variance, outputs)
    if weight is not None and list(wanted) != [wanted[0], True, True]:
        return None  # CUDA returns a gradient that nobody asked for
    of_input, of_weights = outputs[:1], () if weight is None else outputs[1:]
    staging = _staging(x, _SUMS * acc.itemsize)
    sums = temporary("dy", nbytes, temporary("dy by x", nbytes, of_weights, staging, of_input))
    return temporary("invstd", from_variance, sums)


def _channels_last(x: torch.Tensor) -> bool | None:
    """Returns True for channels-last format, False for contiguous, None for another layout.

    A contiguous tensor whose channels are next to each other counts as both.
    """
    if not x.numel():
        return None
    if x.is_contiguous():
        return x.stride(1) == 1
    last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    return True if last else None


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
    width = min(_power_of_two(channels), _TILE)
    height = min(_power_of_two(-(-elements // _PER_THREAD)), _THREADS // width)
    if width * height != _THREADS:
        width = min(_power_of_two(channels), _THREADS // height)
    rows = min(-(-elements // (height * _PER_THREAD)), _MOST_ROWS)
    return (1 if rows < _FEWEST_ROWS else rows, -(-channels // width))


def _power_of_two(number: int) -> int:
    """Returns the largest power of two up to a number."""
    return 1 << (number.bit_length() - 1)


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.native_batch_norm.default": _forward,
        "aten._native_batch_norm_legit.default": _forward,
        "aten._native_batch_norm_legit.no_stats": _forward,
        "aten._native_batch_norm_legit_no_training.default": _forward,
        "aten.native_batch_norm_backward.default": _backward,
    }
)

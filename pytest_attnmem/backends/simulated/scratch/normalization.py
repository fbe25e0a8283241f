"""Rules for layer and RMS normalization (aten/src/ATen/native/cuda/layer_norm_kernel.cu)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from .op_plan import AllocationPlan, Free, OpCall, Output, Rule, Step, Temporary
from .plan_parts import (
    HALVES,
    accumulate_type,
    allocate_outputs,
    contiguous,
    copy_bytes,
    temporaries,
    temporary,
)
from .reduction_launch import blocks_plan, sum_kernel
from .tensor_iterator import reduction

if TYPE_CHECKING:
    import torch

#: From these versions on, rows of one element have a backward of one kernel, and images in
#: channels-last format, which a contiguous image may be too, have kernels of their own.
_ONE_KERNEL: Final = (2, 14)
_BY_FORMAT: Final = (2, 15)
_IMAGES: Final = 4


def _group_forward(call: OpCall) -> AllocationPlan | None:
    """Plans the moments of groups in float for halves, then scale and shift of each channel.

    The kernel needs no scale or shift of channels without weights, or with one element each.
    """
    x, weight, bias, batch, channels, elements, groups = call.args[:7]
    if not _is_plain(x, weight):
        return None
    nbytes = accumulate_type(x.dtype).itemsize
    moments = batch * groups * nbytes if x.dtype in HALVES else 0
    per_channel = elements != 1 and not (weight is None and bias is None)
    if call.version >= _BY_FORMAT and x.dim() >= _IMAGES:
        if channels == 1 or (elements == 1 and x.dim() > _IMAGES):
            return None
        per_channel = per_channel or elements == 1
    scale = batch * channels * nbytes if per_channel else 0
    sizes = {"mean of groups": moments, "rstd of groups": moments, "scale": scale, "shift": scale}
    return (*allocate_outputs(call), *temporaries(sizes))


def _group_backward(call: OpCall) -> AllocationPlan | None:
    """Plans sums over each channel; the gradient of the input needs three more tensors."""
    grad, x, _mean, _rstd, weight, batch, channels, elements, groups, wanted = call.args
    if not (_is_plain(x, weight) and grad.is_contiguous()):
        return None
    by_format = call.version >= _BY_FORMAT and x.dim() >= _IMAGES
    if by_format and (channels == 1 or (elements == 1 and x.dim() > _IMAGES)):
        return None
    size = accumulate_type(x.dtype).itemsize
    of_channels, of_groups = batch * channels * size, batch * groups * size
    if elements == 1 and call.version >= _ONE_KERNEL and not by_format:
        sums = of_groups if wanted[0] else 0
        return (*allocate_outputs(call), *temporaries({"c2": sums, "c3": sums}))
    inner: AllocationPlan = ()
    if wanted[0]:
        by_channel = elements != 1 and weight is not None
        inner = (
            Temporary("c2", of_groups),
            Temporary("c3", of_groups),
            *((Temporary("c1", of_channels),) if by_channel else ()),
            *(Free("c3"), Free("c2")),
            *((Free("c1"),) if by_channel else ()),
        )
    return (*allocate_outputs(call), *temporaries({"ds": of_channels, "db": of_channels}, inner))


def _is_plain(x: torch.Tensor, weight: torch.Tensor | None) -> bool:
    one_dtype = weight is None or weight.dtype == x.dtype
    return bool(x.numel()) and x.is_contiguous() and one_dtype


_MANY_ROWS: Final = 64 * 1024
_WARP: Final = 32
_ROWS: Final = 32  # rows that a block of threads adds up
_BLOCKS: Final = 32 * 1024  # the most blocks of a grid


def _forward(call: OpCall) -> AllocationPlan:
    """Plans contiguous input and weights, then the results, with wider statistics."""
    x, shape, *weights, _eps = call.args
    statistics = _rows(x, shape) * accumulate_type(x.dtype).itemsize
    results = (Output(0), *(Output(index, statistics) for index in range(1, len(call.outputs))))
    return _with_contiguous(x, weights, results)


def _with_contiguous(
    x: torch.Tensor, weights: Sequence[torch.Tensor | None], inner: AllocationPlan
) -> AllocationPlan:
    named = {f"weight {index}": weight for index, weight in enumerate(weights)}
    return contiguous({"input": x, **named}, inner)


def _backward(call: OpCall) -> AllocationPlan | None:
    """Plans copies of input and weights, the results, and meanwhile a copy of the gradient."""
    grad, x, shape, *rest, output_mask = call.args
    weights = rest[1:] if "rms" in call.op else rest[2:]  # after the statistics
    rows, columns = _rows(x, shape), prod(shape)
    made = tuple(Output(index) for index in range(len(call.outputs)))
    first, others = (made[:1], made[1:]) if output_mask[0] else ((), made)
    copied = copy_bytes(grad)
    work: AllocationPlan = (*first, *others, *temporary("contiguous gradient", copied))
    if others and rows > _MANY_ROWS and columns // _WARP < call.profile.multiprocessors // 2:
        if not output_mask[1]:  # then the kernel makes no gradient of the bias either
            return None
        work = (*first, *_two_steps(call, x, rows, columns, others, copied))
    return _with_contiguous(x, weights, work)


def _two_steps(
    call: OpCall, x: torch.Tensor, rows: int, columns: int, rest: AllocationPlan, copied: int
) -> AllocationPlan:
    """Plans weight gradients of many rows: sums over 32 rows each, which a reduction adds up.

    The results replace tensors that were allocated before and are freed one by one.
    """
    size = x.dtype.itemsize
    blocks = min(-(-rows // _ROWS), max(_BLOCKS // -(-columns // _WARP), 1))
    kernel = sum_kernel(x.dtype)
    loop = reduction((blocks, columns), (columns, 1), size, [size], (0,), False)
    names = tuple(f"gradient {index}" for index in range(len(rest)))
    steps: list[Step] = [Temporary(name, columns * size) for name in names]
    steps += [Temporary("contiguous gradient", copied)]
    steps += [Temporary(f"sums of {name}", blocks * columns * size) for name in names]
    for name, output in zip(names, rest, strict=True):
        steps += [output, *blocks_plan(loop, kernel, call.profile), Free(name)]
    steps += [Free(f"sums of {name}") for name in reversed(names)]
    return (*steps, Free("contiguous gradient"))


def _rows(x: torch.Tensor, shape: Any) -> int:
    return prod(x.shape[: x.dim() - len(shape)])


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.native_group_norm.default": _group_forward,
        "aten.native_group_norm_backward.default": _group_backward,
        "aten.native_layer_norm.default": _forward,
        "aten.native_layer_norm_backward.default": _backward,
        "aten._fused_rms_norm.default": _forward,
        "aten._fused_rms_norm_backward.default": _backward,
    }
)

"""Rules for group normalization (aten/src/ATen/native/cuda/group_norm_kernel.cu)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ..op_plan import AllocationPlan, Free, OpCall, Rule, Temporary
from .plan_steps import allocate_outputs, temporary
from .tensor_bytes import HALVES, accumulate_type

if TYPE_CHECKING:
    import torch

#: From these versions on, rows of one element have a backward of one kernel, and images in
#: channels-last format, which a contiguous image may be too, have kernels of their own.
_ONE_KERNEL: Final = (2, 14)
_BY_FORMAT: Final = (2, 15)
_IMAGES: Final = 4


def _forward(call: OpCall) -> AllocationPlan | None:
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
    plan = temporary("scale", scale, temporary("shift", scale))
    for name in ("rstd of groups", "mean of groups"):
        plan = temporary(name, moments, plan)
    return (*allocate_outputs(call), *plan)


def _backward(call: OpCall) -> AllocationPlan | None:
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
        return (*allocate_outputs(call), *temporary("c2", sums, temporary("c3", sums)))
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
    sums = temporary("ds", of_channels, temporary("db", of_channels, inner))
    return (*allocate_outputs(call), *sums)


def _is_plain(x: torch.Tensor, weight: torch.Tensor | None) -> bool:
    one_dtype = weight is None or weight.dtype == x.dtype
    return bool(x.numel()) and x.is_contiguous() and one_dtype


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.native_group_norm.default": _forward,
        "aten.native_group_norm_backward.default": _backward,
    }
)

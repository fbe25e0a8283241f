"""Rules for losses over classes (ATen's cuda folder: LossCTC.cu, Multi*Margin*.cu)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ..op_arguments import argument
from ..op_plan import AllocationPlan, Free, OpCall, Output, Rule, Temporary
from .plan_steps import allocate_outputs, temporary
from .reduction_launch import ReductionKernel, blocks_plan
from .tensor_bytes import HALVES, accumulate_type, dense_bytes
from .tensor_iterator import reduction

if TYPE_CHECKING:
    import torch

_INDEX: Final = 8


def _margin_backward(call: OpCall) -> AllocationPlan | None:
    """Plans the gradient; None for tensors that are made contiguous first."""
    grad, x, target = call.args[:3]
    weight = argument(call, "weight")
    plain = all(tensor is None or tensor.is_contiguous() for tensor in (grad, x, target, weight))
    return allocate_outputs(call) if plain else None


def _margin(call: OpCall) -> AllocationPlan | None:
    """Plans the losses of rows, where their sum or mean is asked for."""
    x: torch.Tensor = call.args[0]
    plain = all(
        tensor is None or tensor.is_contiguous()
        for tensor in (x, call.args[1], argument(call, "weight"))
    )
    if not plain or not x.numel():
        return None
    rows = x.shape[0] if x.dim() > 1 and argument(call, "reduction") else 0
    return (*allocate_outputs(call), *_sum_of_rows(call, x, rows))


def _sum_of_rows(call: OpCall, x: torch.Tensor, rows: int) -> AllocationPlan:
    size = x.dtype.itemsize
    loop = reduction((rows,), (1,), size, [size], (0,), False)
    kernel = ReductionKernel(accumulate_type(x.dtype).itemsize, into_output=x.dtype not in HALVES)
    steps = blocks_plan(loop, kernel, call.profile) if rows else ()
    return temporary("losses of rows", rows * size, steps)


def _lengths(count: int) -> tuple[AllocationPlan, AllocationPlan]:
    """Returns the steps that copy the lengths of a batch to the device, and that free them."""
    names = ("places of targets", "lengths of inputs", "lengths of targets")
    held = tuple(Temporary(name, count * _INDEX) for name in names)
    return held, (Free(names[1]), Free(names[0]), Free(names[2]))


def _ctc_loss(call: OpCall) -> AllocationPlan:
    """Plans the logarithms of the probabilities, then the losses."""
    held, freed = _lengths(call.args[0].shape[1])
    return (*held, Output(1), Output(0), *freed)


def _ctc_loss_backward(call: OpCall) -> AllocationPlan:
    """Plans as many logarithms again, of the rest of each target, then the gradient."""
    alpha: torch.Tensor = call.args[6]
    held, freed = _lengths(call.args[1].shape[1])
    beta = Temporary("logarithms", dense_bytes(alpha))
    return (*held, beta, Output(0), Free("logarithms"), *freed)


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.multi_margin_loss.default": _margin,
        "aten.multi_margin_loss_backward.default": _margin_backward,
        "aten.multilabel_margin_loss_forward.default": _margin,
        "aten.multilabel_margin_loss_backward.default": _margin_backward,
        "aten._ctc_loss.default": _ctc_loss,
        "aten._ctc_loss_backward.default": _ctc_loss_backward,
    }
)

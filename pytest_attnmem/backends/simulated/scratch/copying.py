"""Rules for operators that copy elements, from and to any layout."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from .op_plan import AllocationPlan, Free, OpCall, Output, Rule, Temporary, argument
from .plan_parts import accumulate_type, allocate_outputs, copy_bytes, dense_bytes, temporary

if TYPE_CHECKING:
    import torch

#: Operators that allocate their outputs and nothing else: all their kernels write to the result
#: (Copy.cu, Shape.cu, ScatterGatherKernel.cu, TriangularOps.cu and so on).
OUTPUTS_ONLY: Final = (
    *("clone", "copy", "cat", "stack", "flip", "repeat", "constant_pad_nd"),
    *("tril", "triu", "diag_embed", "slice_backward", "select_backward", "diagonal_backward"),
    *("slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter"),
    *("split_copy", "split_with_sizes_copy", "_unsafe_view", "unfold_copy", "view_copy"),
    *("unsafe_split", "unsafe_split_with_sizes"),  # views
    *("index_select", "gather", "take", "masked_fill", "masked_fill_"),
    *("scatter", "scatter_", "scatter_add", "scatter_add_", "index_add", "index_add_"),
    *("index_copy", "index_copy_", "index_fill", "index_fill_"),
    *("complex", "polar", "addr", "glu", "glu_backward"),
    *("bernoulli.p", "native_dropout_backward"),
    *("alias_copy", "as_strided_copy", "diagonal_copy", "expand_copy", "narrow_copy"),
    *("permute_copy", "squeeze_copy", "unsqueeze_copy", "t_copy", "transpose_copy", "unbind_copy"),
    *("detach_copy", "select_copy", "slice_copy", "fill.Scalar", "block_diag"),
    *("linalg_cross", "put", "put_", "normal.float_float"),
    *("_prelu_kernel", "_prelu_kernel_backward", "rsub"),
    *("_weight_norm_interface_backward", "fill.Tensor"),
    *("mse_loss_backward", "smooth_l1_loss_backward", "huber_loss_backward"),
)


def _roll(call: OpCall) -> AllocationPlan | None:
    """Plans a roll of one dimension after the other, the first of a copy of an input with gaps."""
    x: torch.Tensor = call.args[0]
    nbytes = dense_bytes(x)
    shifts: Any = call.args[1]
    count = len(shifts) if isinstance(shifts, list | tuple) else 1
    if not nbytes:
        return allocate_outputs(call)
    if count == 1:
        return temporary("contiguous", copy_bytes(x), allocate_outputs(call))
    first, *others = (Temporary(f"rolled {number}", nbytes) for number in range(count - 1))
    start = temporary("contiguous", copy_bytes(x), (first,))
    frees = (Free(rolled.name) for rolled in (*reversed(others), first))
    return (*start, *others, *allocate_outputs(call), *frees)


def _log_sigmoid(call: OpCall) -> AllocationPlan:
    """Plans the result alone: on CUDA the buffer for the backward is empty."""
    return (Output(0),)


def _weight_norm(call: OpCall) -> AllocationPlan:
    """Plans the weight, and a norm for each element of ``g``, in the accumulation dtype."""
    _v, g = call.args[:2]
    return (Output(0), Output(1, g.numel() * accumulate_type(g.dtype).itemsize))


def _random_slopes(call: OpCall) -> AllocationPlan:
    """Plans ``rrelu_with_noise``; to train it reads a contiguous copy (RreluWithNoise.cu)."""
    copy = copy_bytes(call.args[0]) if argument(call, "training") else 0
    return (*allocate_outputs(call), *temporary("contiguous", copy))


TAKES_COMPLEX: Final = True
RULES: Final = MappingProxyType[str, Rule](
    {
        **{f"aten.{name}": allocate_outputs for name in OUTPUTS_ONLY},
        "aten.roll.default": _roll,
        "aten._weight_norm_interface.default": _weight_norm,
        "aten.rrelu_with_noise.default": _random_slopes,
        "aten.rrelu_with_noise_backward.default": allocate_outputs,
        "aten.log_sigmoid_forward.default": _log_sigmoid,
    }
)

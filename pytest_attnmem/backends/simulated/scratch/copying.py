"""Rules for operators that copy elements, from and to any layout."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from ..op_plan import AllocationPlan, OpCall, Output, Rule
from .plan_steps import allocate_outputs, outputs_only, temporary
from .tensor_bytes import dense_bytes

#: Operators that allocate their outputs and nothing else: all their kernels write to the result
#: (Copy.cu, Shape.cu, ScatterGatherKernel.cu, TriangularOps.cu, UpSample*.cu, and so on).
OUTPUTS_ONLY: Final = (
    *("clone", "copy", "copy_", "_to_copy", "cat", "stack", "flip", "repeat", "constant_pad_nd"),
    *("tril", "triu", "diag_embed", "slice_backward", "select_backward", "diagonal_backward"),
    *("slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter"),
    *("split_copy", "split_with_sizes_copy", "_unsafe_view", "unfold_copy", "view_copy"),
    *("index_select", "gather", "take", "masked_fill", "masked_fill_"),
    *("scatter", "scatter_", "scatter_add", "scatter_add_", "index_add", "index_add_"),
    *("index_copy", "index_copy_", "index_fill", "index_fill_"),
    *("searchsorted.Tensor", "bucketize.Tensor"),
    *("complex", "polar", "addr", "glu", "glu_backward", "im2col", "col2im"),
    *("avg_pool2d", "max_pool2d_with_indices", "upsample_nearest2d"),
    *("bernoulli.default", "bernoulli.p", "native_dropout_backward"),
    *("mse_loss_backward", "smooth_l1_loss_backward", "huber_loss_backward"),
)


def _roll(call: OpCall) -> AllocationPlan | None:
    """Plans a copy of an input with gaps; a roll of several dimensions is not modelled."""
    x = call.args[0]
    shifts: Any = call.args[1]
    if isinstance(shifts, list | tuple) and len(shifts) != 1:
        return None
    copy = 0 if x.is_contiguous() else dense_bytes(x)
    return temporary("contiguous", copy, allocate_outputs(call))


def _log_sigmoid(call: OpCall) -> AllocationPlan:
    """Plans the result alone: on CUDA the buffer for the backward is empty."""
    return (Output(0),)


TAKES_COMPLEX: Final = True
RULES: Final = MappingProxyType[str, Rule](
    {
        **{f"aten.{name}": outputs_only for name in OUTPUTS_ONLY},
        "aten.roll.default": _roll,
        "aten.log_sigmoid_forward.default": _log_sigmoid,
    }
)

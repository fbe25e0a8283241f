"""Rules for cuDNN's attention.

Sources: ``aten/src/ATen/native/transformers/cuda/attention.cu`` and
``aten/src/ATen/native/cudnn/MHA.cpp`` for the tensors, and the plans of cuDNN 9.20, 9.24 and 9.26,
which come with PyTorch 2.13, 2.14 and 2.15, for the workspaces (``cudnn_workspaces``).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from ..op_arguments import argument
from ..op_plan import AllocationPlan, OpCall, Output, Rule, Step, Temporary
from .cudnn_workspaces import AttentionCall, backward_bytes, forward_bytes
from .layout import content_bytes


def forward(call: OpCall) -> AllocationPlan | None:
    """Plans ``_scaled_dot_product_cudnn_attention``: q, k and v are [B, H, N, d].

    The seed and the offset come first; without gradients there is no log-sum-exp.
    """
    keeps = bool(argument(call, "compute_log_sumexp"))
    workspace = forward_bytes(_described(call, call.args[:3], call.args[3], trains=keeps))
    if workspace is None:
        return None
    order = (2, 3, 0, 1) if keeps else (1, 2, 0)
    return (*map(Output, order), Temporary("workspace of cuDNN", workspace))


def backward(call: OpCall) -> AllocationPlan | None:
    """Plans ``_scaled_dot_product_cudnn_attention_backward``.

    The gradient is copied unless its rows are contiguous.
    """
    grad = call.args[0]
    workspace = backward_bytes(_described(call, call.args[1:4], call.args[8], trains=True))
    if workspace is None:
        return None
    steps: list[Step] = [Output(0), Output(1), Output(2)]
    if grad.stride(-1) != 1:
        steps.append(Temporary("dO as rows", content_bytes(grad)))
    return (*steps, Temporary("workspace of cuDNN", workspace))


def _described(
    call: OpCall, inputs: tuple[Any, Any, Any], bias: Any, *, trains: bool
) -> AttentionCall:
    query, key, value = inputs
    (B, H, N, d), (M, dv) = query.shape, value.shape[2:]
    return AttentionCall(
        call.profile.compute_capability,
        call.profile.multiprocessors,
        call.version,
        *(B, H, key.shape[1], N, M, d, dv),
        biased=bias is not None,
        causal=bool(argument(call, "is_causal")),
        drops=argument(call, "dropout_p") > 0,
        trains=trains,
    )


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten._scaled_dot_product_cudnn_attention.default": forward,
        "aten._scaled_dot_product_cudnn_attention_backward.default": backward,
    }
)

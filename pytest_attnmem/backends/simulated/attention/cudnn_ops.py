"""Rules for cuDNN's attention.

Sources: ``aten/src/ATen/native/transformers/cuda/attention.cu`` and
``aten/src/ATen/native/cudnn/MHA.cpp`` for the tensors, and the plans of cuDNN 9.20, 9.24 and 9.26,
which come with PyTorch 2.13, 2.14 and 2.15, for the workspaces (``cudnn_workspaces``).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ....torch_releases import Version
from ..scratch.op_plan import AllocationPlan, OpCall, Output, Rule, Step, Temporary, argument
from ..scratch.plan_parts import dense_bytes
from ..scratch.reduction_launch import power_of_two
from .layout import FLOAT, round_up, sizes_of

HOPPER: Final = (9, 0)
BLACKWELL: Final = (10, 0)
_HALF: Final = 2  # bytes of an element of q, k and v
_HOPPER_STEP: Final = 256  # Hopper's backward aligns its last buffer
_STEP: Final = 128  # the alignment of every other buffer


class AttentionCall(NamedTuple):
    """A call of cuDNN's attention on a device."""

    capability: tuple[int, int]
    """The compute capability of the device."""
    multiprocessors: int
    version: Version
    B: int
    H: int
    Hkv: int
    N: int
    M: int
    d: int
    dv: int
    biased: bool
    causal: bool
    drops: bool
    trains: bool


def forward_bytes(call: AttentionCall) -> int | None:
    """Returns the workspace of a forward; None if it follows no known rule."""
    if call.capability == HOPPER:
        return _split_bytes(call, _decoding_splits(call)) if call.N == 1 else _HOPPER_STEP
    if call.capability != BLACKWELL or _is_irregular(call):
        return None
    return _dropped_bytes(call) + _STEP if call.drops else 0


def backward_bytes(call: AttentionCall) -> int | None:
    """Returns the workspace of a backward; None if it follows no known rule.

    dQ is added up in float32, and a number is kept for each row. Each query head has its own dK and
    dV, which are added up for each key head.
    """
    rows = FLOAT * call.B * call.H * call.N
    keys = _HALF * call.B * call.H * call.M if call.Hkv != call.H else 0
    heads = sum(round_up(keys * size, _STEP) for size in (call.d, call.dv))
    if call.capability == HOPPER:
        return rows * call.d + rows + heads + _HOPPER_STEP
    if call.capability != BLACKWELL or call.N == 1:
        return None
    if call.d == call.dv == 256:
        return rows + (3 * heads + _STEP if heads else 0)
    second = FLOAT * call.B * call.H * round_up(call.N, 8) * call.d if _adds_twice(call) else 0
    others = heads + second + (_dropped_bytes(call) if call.drops else 0)
    return rows * call.d + rows + others + (_STEP if others else 0)


def _is_irregular(call: AttentionCall) -> bool:
    """Returns True if the plans of Blackwell's forward follow no known rule.

    Keys may be split into parts, and what dropout drops is noted in some calls without gradients.
    """
    if call.version == (2, 13):
        return call.N == 1 and call.M > 1024
    if call.drops:
        return call.N == 1 or not call.trains
    return call.N == 1 or (call.N > 64 and call.M >= 4096 and not call.causal)


def _adds_twice(call: AttentionCall) -> bool:
    """Returns True if Blackwell adds dQ up in a second buffer, of whole blocks of 8 rows."""
    if call.d > 128 or call.drops:
        return False
    if call.version < (2, 15):
        return call.N <= 128 or call.M <= 128
    return call.M <= 128 or (call.N <= 128 and call.biased)


def _dropped_bytes(call: AttentionCall) -> int:
    """Returns the bytes of a bit for each score, in tiles of 128 by 128."""
    return call.B * call.H * round_up(call.N, 128) * round_up(call.M, 128) // 8


def _decoding_splits(call: AttentionCall) -> int:
    """Returns the number of parts into which Hopper splits the keys of one query; 1 means no split.

    It is a power of two: at most one part for 128 keys, and two parts for each multiprocessor.
    """
    heads = call.B * call.Hkv
    if call.causal or call.M <= 512 or 2 * heads > call.multiprocessors:
        return 1
    parts = min(64, power_of_two(call.M // 128))
    while parts * heads >= 2 * call.multiprocessors:
        parts //= 2
    return parts


def _split_bytes(call: AttentionCall, parts: int) -> int:
    """Returns the bytes of the outputs, sums and maxima of the parts."""
    if parts == 1:
        return 0
    rows = FLOAT * parts * call.B * call.H * call.N
    return round_up(rows * call.dv, _STEP) + 2 * round_up(rows, _STEP) + _STEP


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
        steps.append(Temporary("dO as rows", dense_bytes(grad)))
    return (*steps, Temporary("workspace of cuDNN", workspace))


def _described(
    call: OpCall, inputs: tuple[Any, Any, Any], bias: Any, *, trains: bool
) -> AttentionCall:
    return AttentionCall(
        call.profile.compute_capability,
        call.profile.multiprocessors,
        call.version,
        *sizes_of(*inputs, heads_first=True),
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

"""What memory-efficient attention's operators allocate on a CUDA device.

Source, of PyTorch 2.13, in ``aten/src/ATen/native/transformers/cuda/``: ``attention.cu``,
``attention_backward.cu`` and, in ``mem_eff_attention/``, ``kernel_forward.h`` and
``kernel_backward.h``. The seed and the offset of the random state stay on the host.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ..op_arguments import argument
from ..op_plan import AllocationPlan, Free, OpCall, Output, Rule, Step, Temporary
from .backward_kernels import BackwardKernel, select
from .layout import FLOAT, content_bytes, divide_up, round_up, rows_contiguous

_CHUNK: Final = 65535  # batches; more are taken in turns, which is not modelled
_MASK_STEP: Final = 16  # elements that the rows of a mask's gradient begin at
_KEYS_AT_ONCE: Final = 128  # a forward adds up in memory where a row is longer


class _Sizes(NamedTuple):
    B: int
    H: int
    N: int
    M: int
    d: int
    dv: int
    half: bool


def _of(query: Any, key: Any, value: Any, *, heads_first: bool) -> _Sizes:
    heads, rows = (1, 2) if heads_first else (2, 1)
    return _Sizes(
        query.shape[0],
        query.shape[heads],
        query.shape[rows],
        key.shape[rows],
        query.shape[3],
        value.shape[3],
        query.element_size() == 2,
    )


def forward(call: OpCall) -> AllocationPlan | None:
    """``_scaled_dot_product_efficient_attention``: q, k and v are [B, H, N, d]."""
    return _forward(_of(*call.args[:3], heads_first=True))


def unscaled_forward(call: OpCall) -> AllocationPlan | None:
    """``_efficient_attention_forward``: q, k and v are [B, N, H, d]."""
    return _forward(_of(*call.args[:3], heads_first=False))


def _forward(of: _Sizes) -> AllocationPlan | None:
    if of.B > _CHUNK:
        return None
    plan: AllocationPlan = (Output(0), Output(1))
    if of.half and max(of.d, of.dv) > _KEYS_AT_ONCE:
        plan += (Temporary("output in float", FLOAT * of.B * of.N * of.H * of.dv),)
    return plan


def backward(call: OpCall) -> AllocationPlan | None:
    """``_scaled_dot_product_efficient_attention_backward``."""
    of = _of(*call.args[1:4], heads_first=True)
    wanted = argument(call, "grad_input_mask")
    bias = call.args[4] if wanted[3] else None
    return _backward(call, of, call.args[9], bias, heads_first=True)


def unscaled_backward(call: OpCall) -> AllocationPlan | None:
    """``_efficient_attention_backward``; its sequences of many lengths are not modelled."""
    if call.args[6] is not None or argument(call, "shared_storage_dqdkdv"):
        return None
    of = _of(*call.args[1:4], heads_first=False)
    most, window = argument(call, "num_splits_key"), argument(call, "window_size")
    if most is not None or window:
        return None
    bias = call.args[4] if call.args[15] else None
    return _backward(call, of, call.args[11], bias, heads_first=False)


def _backward(
    call: OpCall,
    of: _Sizes,
    dropout: float,
    bias: Any | None,
    *,
    heads_first: bool,
) -> AllocationPlan | None:
    """Gradients, the row sums of dO·O, and what blocks of keys add to at the same time."""
    longest = max(of.d, of.dv)
    kernel = select(call.profile, half=of.half, longest=longest, drops=dropout > 0)
    if of.B > _CHUNK or kernel is None:
        return None
    grad = call.args[0]
    steps: list[Step] = []
    if not rows_contiguous(grad, heads_first=heads_first):
        steps.append(Temporary("dO as rows", content_bytes(grad)))
    steps += [Output(0), Output(1), Output(2)]
    if bias is not None:
        rows = content_bytes(bias) // bias.shape[-1]
        steps.append(Output(3, rows * round_up(bias.shape[-1], _MASK_STEP)))
    steps += _row_sums(of, kernel)
    workspace = _workspace(call, of, kernel)
    if workspace:
        steps.append(Temporary("workspace", workspace))
    return (*steps, Free("row sums"))


def _row_sums(of: _Sizes, kernel: BackwardKernel) -> AllocationPlan:
    """``delta``: by the kernel itself, or as the product of dO and O in float, added up."""
    rows = FLOAT * of.B * of.H * of.N
    if kernel.sums_rows:
        return (Temporary("row sums", rows),)
    product = Temporary("dO·O", rows * of.dv)
    widened = (Temporary("O in float", rows * of.dv), Temporary("dO in float", rows * of.dv))
    steps: AllocationPlan = (*(widened if of.half else ()), product)
    freed = (Free(product.name), *(Free(one.name) for one in reversed(widened) if of.half))
    if of.H == 1 or of.N == 1:  # already in order
        return (*steps, Temporary("row sums", rows), *freed)
    summed = Temporary("row sums by query", rows)
    return (*steps, summed, Temporary("row sums", rows), Free(summed.name), *freed)


def _workspace(call: OpCall, of: _Sizes, kernel: BackwardKernel) -> int:
    """``Params::workspace_size``: float accumulators of dK, dV and dQ, one set a batch and head."""
    elements = 0
    if kernel.accumulates_keys:
        parts = _key_splits(call, of, kernel)
        columns = round_up(of.d, kernel.rows) + round_up(of.dv, kernel.rows)
        elements += parts * kernel.columns * columns
    if kernel.accumulates_queries:
        tiles = divide_up(of.N, kernel.rows) * divide_up(of.d, kernel.columns)
        elements += tiles * (4 + kernel.rows * kernel.columns)  # a lock, a counter and padding
    return of.B * of.H * round_up(elements, 4) * FLOAT


def _key_splits(call: OpCall, of: _Sizes, kernel: BackwardKernel) -> int:
    """How many blocks of keys are at work at once, where each needs a place to add up."""
    if call.deterministic or not kernel.splits_keys:
        return 1
    return max(1, min(divide_up(of.M, kernel.columns), 200 // (of.B * of.H)))


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten._scaled_dot_product_efficient_attention.default": forward,
        "aten._scaled_dot_product_efficient_attention_backward.default": backward,
        "aten._efficient_attention_forward.default": unscaled_forward,
        "aten._efficient_attention_backward.default": unscaled_backward,
    }
)

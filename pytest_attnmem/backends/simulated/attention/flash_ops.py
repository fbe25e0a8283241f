"""Rules for FlashAttention-2's operators.

Source: ``aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp`` (``mha_fwd``,
``mha_bwd`` and their ``varlen`` forms) and ``…/cuda/attention_backward.cu``.
"""

from __future__ import annotations

from ctypes import c_float
from math import ceil
from types import MappingProxyType
from typing import Final

import torch

from ..scratch.op_plan import AllocationPlan, Free, OpCall, Output, Rule, Step, Temporary, argument
from ..scratch.plan_parts import dense_bytes
from .layout import FLOAT, Sizes, divide_up, round_up, rows_contiguous, sizes_of

_BLOCK_ROWS: Final = 128  # softmax_d and dq_accum are padded to whole blocks
_SPLIT_ROWS: Final = 64  # queries in a block if keys are split
_MOST_SPLITS: Final = 128
_RNG_BYTES: Final = 16  # two uint64: the seed and the offset


def forward(call: OpCall) -> AllocationPlan | None:
    """Plans ``_scaled_dot_product_flash_attention``: q, k and v are [B, H, N, d].

    The layout of the output is not modelled if the queries are expanded over heads or rows.
    """
    query, mask = call.args[0], bool(argument(call, "return_debug_mask"))
    if min(query.shape[1:3]) > 1 and 0 in query.stride()[1:3]:
        return None
    sizes = sizes_of(*call.args[:3], heads_first=True)
    return _forward(call, sizes, argument(call, "dropout_p"), returns_mask=mask)


def unscaled_forward(call: OpCall) -> AllocationPlan | None:
    """Plans ``_flash_attention_forward``: q, k and v are [B, N, H, d]; if varlen, [sum(N), H, d].

    A paged key cache is not modelled, nor is varlen with one query a sequence and grouped heads.
    """
    query, key, value, lengths, _, longest, _, dropout, _, mask = call.args[:10]
    if argument(call, "block_table") is not None or argument(call, "num_splits"):
        return None
    if lengths is None:
        window = [argument(call, f"window_size_{side}") for side in ("left", "right")]
        local = any(side is not None and side >= 0 for side in window)
        plain = argument(call, "alibi_slopes") is None and not local
        sizes = sizes_of(query, key, value, heads_first=False)
        return _forward(call, sizes, dropout, returns_mask=bool(mask), groups=plain)
    if longest == 1 and query.shape[1] > key.shape[1]:
        return None
    return _results(dropout, returns_mask=bool(mask))


def backward(call: OpCall) -> AllocationPlan:
    """Plans ``_scaled_dot_product_flash_attention_backward``."""
    return _backward(call, heads_first=True)


def unscaled_backward(call: OpCall) -> AllocationPlan:
    """Plans ``_flash_attention_backward``."""
    lengths = call.args[6]
    if lengths is None:
        return _backward(call, heads_first=False)
    (rows, H, d), (columns, Hkv, dv) = call.args[1].shape, call.args[3].shape
    # All sequences are one batch, and each is padded by a block (``mha_varlen_bwd``).
    padded = rows + _BLOCK_ROWS * (lengths.shape[0] - 1)
    sizes = Sizes(1, H, Hkv, rows, columns, d, dv)
    parts = divide_up(call.profile.multiprocessors, (lengths.shape[0] - 1) * H)
    return _gradients(call, sizes, padded, parts, heads_first=False)


def _forward(
    call: OpCall, sizes: Sizes, dropout: float, *, returns_mask: bool, groups: bool = True
) -> AllocationPlan:
    """Plans ``mha_fwd``, which splits the keys for a few queries and adds up the parts."""
    N, H = sizes.N, sizes.H
    if groups and N == 1 and sizes.Hkv < H and dropout == 0:
        N, H = H // sizes.Hkv, sizes.Hkv  # the heads of a group become queries
    parts = 1
    if dropout == 0:
        rows = sizes.B * H * divide_up(N, _SPLIT_ROWS)
        parts = splits(rows, sizes.M, sizes.d, call.profile.multiprocessors)
    split: tuple[Temporary, ...] = ()
    if parts > 1:
        sums = FLOAT * parts * sizes.B * H * N
        split = (
            Temporary("sums of each split", sums),
            Temporary("output of each split", sums * _padded(sizes.d)),
        )
    return _results(dropout, split, returns_mask=returns_mask)


def _padded(d: int) -> int:
    """Returns ``head_size_rounded``."""
    return round_up(d, 32 if d <= 128 else 64)


def _results(
    dropout: float, split: tuple[Temporary, ...] = (), *, returns_mask: bool
) -> AllocationPlan:
    """Plans the output, log-sum-exp, splits, random state and an unused number.

    With dropout, the random state is allocated twice before the first is freed.
    """
    start: AllocationPlan = (Output(0), Output(1), *((Output(4),) if returns_mask else ()), *split)
    if dropout == 0:
        return (*start, Output(2), Output(3), *(Free(s.name) for s in split))
    first = Temporary("first random state", _RNG_BYTES)
    return (*start, first, Output(3), Output(2), Free(first.name))


def _backward(call: OpCall, *, heads_first: bool) -> AllocationPlan:
    sizes = sizes_of(*call.args[1:4], heads_first=heads_first)
    parts = divide_up(call.profile.multiprocessors, sizes.B * sizes.H)
    return _gradients(call, sizes, round_up(sizes.N, _BLOCK_ROWS), parts, heads_first=heads_first)


def _gradients(
    call: OpCall, sizes: Sizes, padded: int, parts: int, *, heads_first: bool
) -> AllocationPlan:
    """Plans ``mha_bwd``, which adds up dQ in float, with ``padded`` rows a batch.

    If deterministic, each of ``parts`` has its own sum, but not where PyTorch only warns. Each head
    of a group has its own dK and dV.
    """
    grad, query, out = call.args[0], call.args[1], call.args[4]
    steps: list[Step] = [
        Temporary(name, dense_bytes(tensor))
        for name, tensor in (("dO as rows", grad), ("O as rows", out))
        if not rows_contiguous(tensor, heads_first=heads_first)
    ]
    scalars = FLOAT * sizes.B * sizes.H * padded
    strict = call.deterministic and not torch.is_deterministic_algorithms_warn_only_enabled()
    accumulated = scalars * _padded(sizes.d) * (parts if strict else 1)
    steps += [Output(0), Output(1), Output(2)]
    steps += [Temporary("softmax_d", scalars), Temporary("dq_accum", accumulated)]
    if sizes.Hkv != sizes.H:
        expanded = sizes.B * sizes.M * sizes.H * sizes.d * query.element_size()
        steps += [Temporary("dK of each head", expanded), Temporary("dV of each head", expanded)]
    return tuple(steps)


def splits(rows: int, columns: int, d: int, multiprocessors: int) -> int:
    """Returns the number of parts into which a forward splits the keys (``num_splits_heuristic``).

    It is the smallest that keeps the device 85 % as busy as the best. ``rows`` is the number of
    blocks of queries over all heads and batches; two blocks run on a multiprocessor at once.
    """
    at_once = 2 * multiprocessors
    if 5 * rows >= 4 * at_once:
        return 1
    blocks = divide_up(columns, 256 if d <= 64 else 128 if d <= 128 else 64)
    busy = {
        parts: _busy(rows * parts, at_once)
        for parts in range(1, min(_MOST_SPLITS, at_once, blocks) + 1)
        if parts == 1 or divide_up(blocks, parts) != divide_up(blocks, parts - 1)
    }
    best = max(busy.values(), default=0.0)
    return next((parts for parts, share in busy.items() if share >= 0.85 * best), 1)


def _busy(blocks: int, at_once: int) -> float:
    """Returns the share of a device's time that the blocks use, in PyTorch's single precision."""
    waves = c_float(blocks / at_once).value
    return c_float(waves / ceil(waves)).value


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten._scaled_dot_product_flash_attention.default": forward,
        "aten._scaled_dot_product_flash_attention_backward.default": backward,
        "aten._flash_attention_forward.default": unscaled_forward,
        "aten._flash_attention_backward.default": unscaled_backward,
    }
)

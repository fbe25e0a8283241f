"""When a backend of attention cannot take a call: PyTorch 2.13's checks, as sentences. No torch.

Each constraint says why the call does not fit, or nothing. Source of all:
``aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`` and ``…/transformers/sdp_utils_cpp.h``;
each is named as there. Shared here are those that look at shapes and layouts alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .sdp_params import Described, SdpParams

Constraint = Callable[[SdpParams], str | None]

HALVES: Final = ("float16", "bfloat16")


def four_dimensional(asked: SdpParams) -> str | None:
    """``check_tensor_shapes``."""
    ranks = [len(tensor.shape) for tensor in asked.inputs]
    return None if ranks == [4, 4, 4] else f"q, k and v need 4 dimensions, not {ranks}"


def sequences_not_empty(asked: SdpParams) -> str | None:
    """``check_nonzero_sequence_lengths_dense``."""
    empty = asked.query.shape[-2] == 0 or asked.key.shape[-2] == 0
    return "a sequence is empty" if empty else None


def dense(asked: SdpParams) -> str | None:
    """Nested tensors are none of this project's: only the composite path is claimed for them."""
    return "nested tensors" if asked.nested else None


def rows_contiguous(asked: SdpParams) -> str | None:
    """``check_last_dim_stride_equals_1_dense<false>``."""
    return _rows_contiguous(asked, one_column_is=False)


def rows_contiguous_or_one_column(asked: SdpParams) -> str | None:
    """``check_last_dim_stride_equals_1_dense<true>``."""
    return _rows_contiguous(asked, one_column_is=True)


def _rows_contiguous(asked: SdpParams, *, one_column_is: bool) -> str | None:
    fits = all(tensor.strides[-1] == 1 for tensor in asked.inputs)
    if one_column_is:
        fits = fits or asked.query.shape[-1] == 1
    if not fits:
        return "the last dimension of q, k and v needs stride 1"
    if asked.attn_mask is not None and asked.attn_mask.strides[-1] != 1:
        return "the last dimension of the mask needs stride 1"
    return None


def same_batch_and_heads(asked: SdpParams) -> str | None:
    """``check_batch_size_and_num_heads_dense<false>``: no grouped queries."""
    return _batches(asked) or (
        None if len(_heads(asked)) == 1 else "q, k and v need the same number of heads"
    )


def batch_and_groups(asked: SdpParams) -> str | None:
    """``check_batch_size_and_num_heads_dense<true>``: key and value have as many heads."""
    return _groups(asked, same=True)


def batch_and_any_groups(asked: SdpParams) -> str | None:
    """``check_batch_size_and_num_heads_dense<true, false>``: key and value may differ."""
    return _groups(asked, same=False)


def _groups(asked: SdpParams, *, same: bool) -> str | None:
    if not asked.enable_gqa:
        return same_batch_and_heads(asked)
    query, key, value = (tensor.shape[-3] for tensor in asked.inputs)
    if same and key != value:
        return "k and v need the same number of heads"
    divides = key and query % key == 0 and (same or (value and query % value == 0))
    return _batches(asked) or (None if divides else "the heads of k and v must divide those of q")


def _batches(asked: SdpParams) -> str | None:
    batches = {tensor.shape[0] for tensor in asked.inputs}
    return None if len(batches) == 1 else "q, k and v need the same batch size"


def _heads(asked: SdpParams) -> set[int]:
    return {tensor.shape[-3] for tensor in asked.inputs}


def of_dtype(asked: SdpParams, allowed: tuple[str, ...]) -> str | None:
    """``check_tensor_dtype``."""
    dtypes = {tensor.dtype for tensor in asked.inputs}
    if len(dtypes) == 1 and dtypes <= set(allowed):
        return None
    return f"dtype {' and '.join(sorted(dtypes))} is none of {', '.join(allowed)}"


def mask_broadcasts(asked: SdpParams) -> str | None:
    """``check_attn_mask_shape``; a mask that wants a gradient does not fit either."""
    mask = asked.attn_mask
    if mask is None:
        return None
    if mask.requires_grad:
        return "the mask requires a gradient"
    rank = len(mask.shape)
    (batch, heads, rows), columns = asked.query.shape[:3], asked.key.shape[2]
    wanted = (batch, heads, rows, columns)[-rank:] if rank in (2, 4) else ()
    if wanted and all(_fits(*pair) for pair in zip(mask.shape, wanted, strict=True)):
        return None
    return f"a mask of shape {list(mask.shape)}"


def _fits(size: int, wanted: int) -> bool:
    return bool(size == wanted) or bool(size == 1)


def elements_aligned(asked: SdpParams) -> str | None:
    """``check_head_dim_size_mem_efficient``."""
    step = _alignment(asked)
    query, key, value = (tensor.shape[-1] for tensor in asked.inputs)
    if query == key and query > 0 and value > 0 and query % step == 0 and value % step == 0:
        return None
    return f"head dims {query}, {key} and {value}: need multiples of {step}, q's and k's the same"


def pointers_aligned(asked: SdpParams) -> str | None:
    """``check_data_ptr_alignment_mem_efficient``: where q, k and v begin, on sm 80 and later."""
    step = _alignment(asked)
    if asked.capability < (8, 0) or all(_aligned(tensor, step) for tensor in asked.inputs):
        return None
    return f"q, k or v does not begin at a multiple of {step} elements"


def _aligned(tensor: Described, step: int) -> bool:
    return 0 in tensor.shape or tensor.offset % step == 0


def _alignment(asked: SdpParams) -> int:
    """``minimum_gemm_alignment``, in elements."""
    half = asked.query.dtype in HALVES
    newer = asked.capability >= (8, 0)
    tensor_cores = newer or (asked.capability >= (7, 0) and half)
    least = 4 if newer else 1
    return max(least, 128 // (16 if half else 32)) if tensor_cores else least

"""PyTorch's checks that an attention backend can take a call. No torch.

A constraint returns the reason why the backend cannot take the call, or None. Sources:
``aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`` and ``…/transformers/sdp_utils_cpp.h``,
whose names the docstrings give. This module has the checks of shapes, layouts and dtypes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .sdp_params import Described, SdpParams

Constraint = Callable[[SdpParams], str | None]

HALVES: Final = ("float16", "bfloat16")


def four_dimensional(params: SdpParams) -> str | None:
    """Requires 4 dimensions (``check_tensor_shapes``)."""
    ranks = [len(tensor.shape) for tensor in params.inputs]
    return None if ranks == [4, 4, 4] else f"q, k and v need 4 dimensions, not {ranks}"


def sequences_not_empty(params: SdpParams) -> str | None:
    """Requires sequences that are not empty (``check_nonzero_sequence_lengths_dense``)."""
    empty = params.query.shape[-2] == 0 or params.key.shape[-2] == 0
    return "a sequence is empty" if empty else None


def dense(params: SdpParams) -> str | None:
    """Requires dense tensors: for nested ones, only the math backend is modelled."""
    return "nested tensors" if params.nested else None


def rows_contiguous(params: SdpParams) -> str | None:
    """Requires rows without gaps (``check_last_dim_stride_equals_1_dense<false>``)."""
    return _rows_contiguous(params, one_column_is=False)


def rows_contiguous_or_one_column(params: SdpParams) -> str | None:
    """Requires rows without gaps or one column (``check_last_dim_stride_equals_1_dense<true>``)."""
    return _rows_contiguous(params, one_column_is=True)


def _rows_contiguous(params: SdpParams, *, one_column_is: bool) -> str | None:
    fits = all(tensor.strides[-1] == 1 for tensor in params.inputs)
    if one_column_is:
        fits = fits or params.query.shape[-1] == 1
    if not fits:
        return "the last dimension of q, k and v needs stride 1"
    if params.attn_mask is not None and params.attn_mask.strides[-1] != 1:
        return "the last dimension of the mask needs stride 1"
    return None


def same_batch_and_heads(params: SdpParams) -> str | None:
    """Requires the same heads for all (``check_batch_size_and_num_heads_dense<false>``)."""
    return _batches(params) or (
        None if len(_heads(params)) == 1 else "q, k and v need the same number of heads"
    )


def batch_and_groups(params: SdpParams) -> str | None:
    """Allows grouped heads, as many in key as in value (``…_num_heads_dense<true>``)."""
    return _groups(params, same=True)


def batch_and_any_groups(params: SdpParams) -> str | None:
    """Allows grouped heads that differ in key and value (``…_num_heads_dense<true, false>``)."""
    return _groups(params, same=False)


def _groups(params: SdpParams, *, same: bool) -> str | None:
    if not params.enable_gqa:
        return same_batch_and_heads(params)
    query, key, value = (tensor.shape[-3] for tensor in params.inputs)
    if same and key != value:
        return "k and v need the same number of heads"
    divides = key and query % key == 0 and (same or (value and query % value == 0))
    return _batches(params) or (None if divides else "the heads of k and v must divide those of q")


def _batches(params: SdpParams) -> str | None:
    batches = {tensor.shape[0] for tensor in params.inputs}
    return None if len(batches) == 1 else "q, k and v need the same batch size"


def _heads(params: SdpParams) -> set[int]:
    return {tensor.shape[-3] for tensor in params.inputs}


def supported_dtype(params: SdpParams, allowed: tuple[str, ...]) -> str | None:
    """Requires one of the allowed dtypes (``check_tensor_dtype``)."""
    dtypes = {tensor.dtype for tensor in params.inputs}
    if len(dtypes) == 1 and dtypes <= set(allowed):
        return None
    return f"dtype {' and '.join(sorted(dtypes))} is not one of {', '.join(allowed)}"


def mask_broadcasts(params: SdpParams) -> str | None:
    """Requires a mask that broadcasts and needs no gradient (``check_attn_mask_shape``)."""
    mask = params.attn_mask
    if mask is None:
        return None
    if mask.requires_grad:
        return "the mask requires a gradient"
    rank = len(mask.shape)
    (batch, heads, rows), columns = params.query.shape[:3], params.key.shape[2]
    wanted = (batch, heads, rows, columns)[-rank:] if rank in (2, 4) else ()
    if wanted and all(_fits(*pair) for pair in zip(mask.shape, wanted, strict=True)):
        return None
    return f"a mask of shape {list(mask.shape)}"


def _fits(size: int, wanted: int) -> bool:
    return bool(size == wanted) or bool(size == 1)


def elements_aligned(params: SdpParams) -> str | None:
    """Requires aligned head dims (``check_head_dim_size_mem_efficient``)."""
    step = _alignment(params)
    query, key, value = (tensor.shape[-1] for tensor in params.inputs)
    if query == key and query > 0 and value > 0 and query % step == 0 and value % step == 0:
        return None
    return f"head dims {query}, {key} and {value}: need multiples of {step}, q's and k's the same"


def pointers_aligned(params: SdpParams) -> str | None:
    """Requires aligned pointers from sm 80 on (``check_data_ptr_alignment_mem_efficient``)."""
    step = _alignment(params)
    if params.capability < (8, 0) or all(_aligned(tensor, step) for tensor in params.inputs):
        return None
    return f"q, k or v does not begin at a multiple of {step} elements"


def _aligned(tensor: Described, step: int) -> bool:
    return 0 in tensor.shape or tensor.offset % step == 0


def _alignment(params: SdpParams) -> int:
    """Returns the alignment in elements (``minimum_gemm_alignment``)."""
    half = params.query.dtype in HALVES
    newer = params.capability >= (8, 0)
    tensor_cores = newer or (params.capability >= (7, 0) and half)
    least = 4 if newer else 1
    return max(least, 128 // (16 if half else 32)) if tensor_cores else least

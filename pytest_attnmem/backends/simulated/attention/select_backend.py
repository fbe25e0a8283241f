"""The choice of a backend for ``scaled_dot_product_attention``.

Source: ``select_sdp_backend`` and the ``can_use_…_attention`` in
``aten/src/ATen/native/transformers/cuda/sdp_utils.cpp``. For nested tensors only the math backend
is modelled. No torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from .sdp_params import CUDNN, CUDNN_FIRST, EFFICIENT, FLASH, MATH, ORDER, SdpParams

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


def rows_contiguous_or_one_column(params: SdpParams) -> str | None:
    """Requires rows without gaps or one column (``check_last_dim_stride_equals_1_dense<true>``)."""
    return rows_contiguous(params, one_column_is=params.query.shape[-1] == 1)


def rows_contiguous(params: SdpParams, *, one_column_is: bool = False) -> str | None:
    """Requires rows without gaps (``check_last_dim_stride_equals_1_dense<false>``)."""
    if not (one_column_is or all(tensor.strides[-1] == 1 for tensor in params.inputs)):
        return "the last dimension of q, k and v needs stride 1"
    if params.attn_mask is not None and params.attn_mask.strides[-1] != 1:
        return "the last dimension of the mask needs stride 1"
    return None


def same_batch_and_heads(params: SdpParams) -> str | None:
    """Requires the same heads for all (``check_batch_size_and_num_heads_dense<false>``)."""
    one = len({tensor.shape[-3] for tensor in params.inputs}) == 1
    return _batches(params) or (None if one else "q, k and v need the same number of heads")


def batch_and_any_groups(params: SdpParams) -> str | None:
    """Allows grouped heads that differ in key and value (``…_num_heads_dense<true, false>``)."""
    return batch_and_groups(params, same=False)


def batch_and_groups(params: SdpParams, *, same: bool = True) -> str | None:
    """Allows grouped heads, as many in key as in value (``…_num_heads_dense<true>``)."""
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
    if wanted and all(size in (1, most) for size, most in zip(mask.shape, wanted, strict=True)):
        return None
    return f"a mask of shape {list(mask.shape)}"


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
    aligned = all(0 in tensor.shape or tensor.offset % step == 0 for tensor in params.inputs)
    if params.capability < (8, 0) or aligned:
        return None
    return f"q, k or v does not begin at a multiple of {step} elements"


def _alignment(params: SdpParams) -> int:
    """Returns the alignment in elements (``minimum_gemm_alignment``)."""
    half = params.query.dtype in HALVES
    newer = params.capability >= (8, 0)
    tensor_cores = newer or (params.capability >= (7, 0) and half)
    least = 4 if newer else 1
    return max(least, 128 // (16 if half else 32)) if tensor_cores else least


#: PyTorch's errors if no backend that is switched on can run, and if none is switched on.
NO_KERNEL: Final = "No available kernel. Aborting execution."
NO_BACKEND: Final = (
    "No viable backend for scaled_dot_product_attention was found. "
    "This is likely due to turning off both the math kernel and the fused kernels."
)
_OFF: Final = "switched off"

#: The first version whose efficient attention takes groups.
_GROUPED_EFFICIENT: Final = (2, 14)
#: The first version that adds a batch to inputs of three dimensions.
BATCHES_ADDED: Final = (2, 14)


@dataclass(frozen=True, slots=True)
class SelectedBackend:
    """The selected backend, or None, and the reasons against the backends before it."""

    backend: str | None
    reasons: Mapping[str, str]

    @property
    def error(self) -> str:
        """Returns the text of PyTorch's ``RuntimeError`` if no backend is selected."""
        off = all(reason == _OFF for reason in self.reasons.values())
        return NO_BACKEND if off else NO_KERNEL


def select_backend(params: SdpParams) -> SelectedBackend:
    """Returns the backend that PyTorch selects."""
    if params.version >= BATCHES_ADDED:
        params = _as_batch_of_groups(params)
    reasons: dict[str, str] = {}
    for backend in precedence(params):
        if backend == MATH and params.switches.math:
            return SelectedBackend(MATH, MappingProxyType(reasons))
        against = objection(backend, params)
        if against is None:
            return SelectedBackend(backend, MappingProxyType(reasons))
        reasons[backend] = against
    return SelectedBackend(None, MappingProxyType(reasons))


def _as_batch_of_groups(params: SdpParams) -> SdpParams:
    """Returns the call as PyTorch sees it from 2.14 on.

    Inputs of three dimensions are one batch, and one head of keys and values serves all queries.
    """
    query, key, value, mask = *params.inputs, params.attn_mask
    if all(len(tensor.shape) == 3 for tensor in params.inputs):
        query, key, value = (tensor.batched() for tensor in params.inputs)
        mask = mask.batched() if mask is not None and len(mask.shape) == 3 else mask
    heads = [tensor.shape[-3] for tensor in (key, value) if len(tensor.shape) == 4]
    groups = params.enable_gqa or heads == [1, 1]
    return replace(params, query=query, key=key, value=value, attn_mask=mask, enable_gqa=groups)


def precedence(params: SdpParams) -> tuple[str, ...]:
    """Returns the backends in the order in which PyTorch tries them (``priority_order``).

    cuDNN is first on Hopper and data-center Blackwell, unless the program sets an order.
    """
    prefers = params.prefers_cudnn and params.capability[0] in (9, 10)
    return CUDNN_FIRST if prefers and params.switches.order == ORDER else params.switches.order


def objection(backend: str, params: SdpParams) -> str | None:
    """Returns the reason why that backend cannot take the call, or None."""
    if not params.switches.allows(backend):
        return _OFF
    for constraint in _CONSTRAINTS.get(backend, ()):
        against = constraint(params)
        if against is not None:
            return against
    return None


def _at_least_ampere(params: SdpParams) -> str | None:
    """Requires sm 80 to 121 (``check_flash_attention_hardware_support`` and cuDNN's)."""
    if (8, 0) <= params.capability <= (12, 1):
        return None
    major, minor = params.capability
    return f"needs compute capability 8.0 to 12.1, not {major}.{minor}"


def _half_precision(params: SdpParams) -> str | None:
    """Requires half precision (``check_dtypes_low_precision``)."""
    return supported_dtype(params, HALVES if params.capability >= (8, 0) else HALVES[:1])


def _single_or_half_precision(params: SdpParams) -> str | None:
    """Requires half or single precision (the end of ``can_use_mem_efficient_attention``)."""
    newer = ("float16", "float32", "bfloat16")
    return supported_dtype(params, newer if params.capability >= (8, 0) else newer[:2])


def _no_mask(params: SdpParams) -> str | None:
    """Requires a call without a mask (``check_for_attn_mask``)."""
    return None if params.attn_mask is None else "there is a mask"


def _flash_head_dim(params: SdpParams) -> str | None:
    """Requires one head dim, of at most 256 (``check_head_dim_size_flash``)."""
    sizes = [tensor.shape[-1] for tensor in params.inputs]
    same = sizes[0] == sizes[1] and sizes[0] == sizes[2]
    return None if same and sizes[0] <= 256 else f"head dims {sizes}: need one, of at most 256"


def _flash_backward_fits(params: SdpParams) -> str | None:
    """Requires a small head dim for backward on small devices.

    ``check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120``.
    """
    small = (8, 6) <= params.capability <= (8, 9) or (12, 0) <= params.capability <= (12, 1)
    size = params.query.shape[-1]
    if not (small and params.trains) or size <= 192 or (size > 224 and params.dropout_p == 0):
        return None
    return f"no backward at head dim {size} on this device"


def _square_if_causal(params: SdpParams) -> str | None:
    """Requires square scores if causal (``check_flash_causal_non_square_seqlens``)."""
    square = params.query.shape[-2] == params.key.shape[-2]
    return "causal, and not square" if params.is_causal and not square else None


def _cudnn_may_vary(params: SdpParams) -> str | None:
    """Requires that results may vary (``check_cudnn_deterministic``)."""
    return "cuDNN is not deterministic" if params.switches.deterministic else None


def _cudnn_dropout(params: SdpParams) -> str | None:
    """Requires dropout in sixteenths (``check_cudnn_dropout``)."""
    sixteenths = params.dropout_p * 16
    return None if sixteenths == int(sixteenths) else "dropout is not a multiple of 1/16"


def _cudnn_shapes(params: SdpParams) -> str | None:
    """Requires shapes that cuDNN 9.15.1 or later takes (``check_cudnn_tensor_shapes``)."""
    batch, heads, rows, d = params.query.shape
    columns, dv = params.key.shape[2], params.value.shape[3]
    limit = _cudnn_head_dim(params, d, dv)
    if batch > 65535 or heads > 65535:
        return "more than 65535 batches or heads"
    if d > limit or dv > limit or d % 8 or dv % 8:
        return f"head dims {d} and {dv}: need multiples of 8, at most {limit}"
    if columns == 1:
        return "there is only one key"
    if rows == 1 and params.version == (2, 14) and params.capability[0] == 10:
        return "there is only one query, on Blackwell"
    return "there is only one query, with dropout" if rows == 1 and params.dropout_p else None


def _cudnn_head_dim(params: SdpParams, d: int, dv: int) -> int:
    """Returns the largest head dim that cuDNN takes in a call with head dims ``d`` and ``dv``."""
    hopper, blackwell = params.capability == (9, 0), params.capability[0] == 10
    if (hopper or blackwell) and params.version >= (2, 14):
        wide = not params.trains or (d, dv) in ((192, 128), (256, 256))
        return 256 if wide else 128
    if blackwell and (d, dv) == (192, 128):
        return 192
    return 256 if hopper else 128


def _efficient_groups(params: SdpParams) -> str | None:
    """Requires the same heads for all; from 2.14 on, q may have several heads for each of k's."""
    grouped = params.version >= _GROUPED_EFFICIENT
    return (batch_and_groups if grouped else same_batch_and_heads)(params)


_CONSTRAINTS: Final[Mapping[str, tuple[Constraint, ...]]] = MappingProxyType(
    {
        FLASH: (
            dense,
            four_dimensional,
            _no_mask,
            _flash_head_dim,
            _at_least_ampere,
            _flash_backward_fits,
            _square_if_causal,
            _half_precision,
            batch_and_groups,
            sequences_not_empty,
            rows_contiguous_or_one_column,
        ),
        EFFICIENT: (
            dense,
            four_dimensional,
            elements_aligned,
            pointers_aligned,
            sequences_not_empty,
            rows_contiguous,
            _efficient_groups,
            _single_or_half_precision,
        ),
        CUDNN: (
            dense,
            four_dimensional,
            _cudnn_may_vary,
            _half_precision,
            mask_broadcasts,
            _at_least_ampere,
            _cudnn_dropout,
            sequences_not_empty,
            rows_contiguous_or_one_column,
            batch_and_any_groups,
            _cudnn_shapes,
        ),
    }
)

"""The choice of a backend for ``scaled_dot_product_attention``.

Source: ``select_sdp_backend`` and the ``can_use_…_attention`` in
``aten/src/ATen/native/transformers/cuda/sdp_utils.cpp``. For nested tensors only the math backend
is modelled. No torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from . import constraints
from .constraints import Constraint
from .sdp_params import CUDNN, CUDNN_FIRST, EFFICIENT, FLASH, MATH, ORDER, SdpParams

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
    able = params.has_cudnn and params.capability[0] in (9, 10)
    prefers = able and params.prefers_cudnn
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
    return constraints.supported_dtype(
        params, constraints.HALVES if params.capability >= (8, 0) else constraints.HALVES[:1]
    )


def _single_or_half_precision(params: SdpParams) -> str | None:
    """Requires half or single precision (the end of ``can_use_mem_efficient_attention``)."""
    newer = ("float16", "float32", "bfloat16")
    return constraints.supported_dtype(params, newer if params.capability >= (8, 0) else newer[:2])


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


def _cudnn_is_available(params: SdpParams) -> str | None:
    return None if params.has_cudnn else "cuDNN is not available"


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
    if params.version < _GROUPED_EFFICIENT:
        return constraints.same_batch_and_heads(params)
    return constraints.batch_and_groups(params)


_CONSTRAINTS: Final[Mapping[str, tuple[Constraint, ...]]] = MappingProxyType(
    {
        FLASH: (
            constraints.dense,
            constraints.four_dimensional,
            _no_mask,
            _flash_head_dim,
            _at_least_ampere,
            _flash_backward_fits,
            _square_if_causal,
            _half_precision,
            constraints.batch_and_groups,
            constraints.sequences_not_empty,
            constraints.rows_contiguous_or_one_column,
        ),
        EFFICIENT: (
            constraints.dense,
            constraints.four_dimensional,
            constraints.elements_aligned,
            constraints.pointers_aligned,
            constraints.sequences_not_empty,
            constraints.rows_contiguous,
            _efficient_groups,
            _single_or_half_precision,
        ),
        CUDNN: (
            _cudnn_is_available,
            constraints.dense,
            constraints.four_dimensional,
            _cudnn_may_vary,
            _half_precision,
            constraints.mask_broadcasts,
            _at_least_ampere,
            _cudnn_dropout,
            constraints.sequences_not_empty,
            constraints.rows_contiguous_or_one_column,
            constraints.batch_and_any_groups,
            _cudnn_shapes,
        ),
    }
)

"""Which backend ``scaled_dot_product_attention`` takes on a CUDA device, as PyTorch 2.13 decides.

Source: ``select_sdp_backend`` and the ``can_use_…_attention`` in
``aten/src/ATen/native/transformers/cuda/sdp_utils.cpp``. Nested tensors are left out: of them only
the composite path is known. No torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from . import constraints
from .constraints import Constraint
from .sdp_params import CUDNN, CUDNN_FIRST, EFFICIENT, FLASH, MATH, ORDER, SdpParams

#: What PyTorch says when nothing that is switched on can run.
NO_KERNEL: Final = "No available kernel. Aborting execution."
NO_BACKEND: Final = (
    "No viable backend for scaled_dot_product_attention was found. "
    "This is likely due to turning off both the math kernel and the fused kernels."
)
_OFF: Final = "switched off"


@dataclass(frozen=True, slots=True)
class SelectedBackend:
    """The backend taken, if any, and why those with precedence over it were not."""

    backend: str | None
    reasons: Mapping[str, str]

    @property
    def error(self) -> str:
        """What PyTorch raises, as a ``RuntimeError``, where there is no backend."""
        off = all(reason == _OFF for reason in self.reasons.values())
        return NO_BACKEND if off else NO_KERNEL


def select_backend(asked: SdpParams) -> SelectedBackend:
    """Decide as the device would."""
    reasons: dict[str, str] = {}
    for backend in precedence(asked):
        if backend == MATH and asked.switches.math:
            return SelectedBackend(MATH, MappingProxyType(reasons))
        against = objection(backend, asked)
        if against is None:
            return SelectedBackend(backend, MappingProxyType(reasons))
        reasons[backend] = against
    return SelectedBackend(None, MappingProxyType(reasons))


def precedence(asked: SdpParams) -> tuple[str, ...]:
    """``priority_order``: on Hopper and data-center Blackwell, cuDNN is first unless reordered."""
    able = asked.has_cudnn and asked.capability[0] in (9, 10)
    prefers = able and asked.prefers_cudnn
    return CUDNN_FIRST if prefers and asked.switches.order == ORDER else asked.switches.order


def objection(backend: str, asked: SdpParams) -> str | None:
    """Why that backend cannot take the call, or ``None``."""
    if not asked.switches.allows(backend):
        return _OFF
    for constraint in _CONSTRAINTS.get(backend, ()):
        against = constraint(asked)
        if against is not None:
            return against
    return None


def _at_least_ampere(asked: SdpParams) -> str | None:
    """``check_flash_attention_hardware_support``, ``check_cudnn_hardware_support``."""
    if (8, 0) <= asked.capability <= (12, 1):
        return None
    major, minor = asked.capability
    return f"needs compute capability 8.0 to 12.1, not {major}.{minor}"


def _half_precision(asked: SdpParams) -> str | None:
    """``check_dtypes_low_precision``."""
    return constraints.of_dtype(
        asked, constraints.HALVES if asked.capability >= (8, 0) else constraints.HALVES[:1]
    )


def _single_or_half_precision(asked: SdpParams) -> str | None:
    """The end of ``can_use_mem_efficient_attention``."""
    newer = ("float16", "float32", "bfloat16")
    return constraints.of_dtype(asked, newer if asked.capability >= (8, 0) else newer[:2])


def _no_mask(asked: SdpParams) -> str | None:
    """``check_for_attn_mask``."""
    return None if asked.attn_mask is None else "there is a mask"


def _flash_head_dim(asked: SdpParams) -> str | None:
    """``check_head_dim_size_flash``."""
    sizes = [tensor.shape[-1] for tensor in asked.inputs]
    same = sizes[0] == sizes[1] and sizes[0] == sizes[2]
    return None if same and sizes[0] <= 256 else f"head dims {sizes}: need one, of at most 256"


def _flash_backward_fits(asked: SdpParams) -> str | None:
    """``check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120``."""
    small = (8, 6) <= asked.capability <= (8, 9) or (12, 0) <= asked.capability <= (12, 1)
    size = asked.query.shape[-1]
    if not (small and asked.trains) or size <= 192 or (size > 224 and asked.dropout_p == 0):
        return None
    return f"no backward at head dim {size} on this device"


def _square_if_causal(asked: SdpParams) -> str | None:
    """``check_flash_causal_non_square_seqlens``."""
    square = asked.query.shape[-2] == asked.key.shape[-2]
    return "causal, and not square" if asked.is_causal and not square else None


def _cudnn_is_there(asked: SdpParams) -> str | None:
    return None if asked.has_cudnn else "cuDNN is not there"


def _cudnn_may_vary(asked: SdpParams) -> str | None:
    """``check_cudnn_deterministic``."""
    return "it is not deterministic" if asked.switches.deterministic else None


def _cudnn_dropout(asked: SdpParams) -> str | None:
    """``check_cudnn_dropout``."""
    sixteenths = asked.dropout_p * 16
    return None if sixteenths == int(sixteenths) else "dropout is no multiple of 1/16"


def _cudnn_shapes(asked: SdpParams) -> str | None:
    """``check_cudnn_tensor_shapes``, for cuDNN from 9.15.1 on: 2.13 comes with 9.20."""
    batch, heads, rows, d = asked.query.shape
    columns, dv = asked.key.shape[2], asked.value.shape[3]
    limit = 256 if asked.capability == (9, 0) else 128
    if asked.capability[0] == 10 and d == 192 and dv == 128:
        limit = 192
    if batch > 65535 or heads > 65535:
        return "more than 65535 batches or heads"
    if d > limit or dv > limit or d % 8 or dv % 8:
        return f"head dims {d} and {dv}: need multiples of 8, at most {limit}"
    if columns == 1:
        return "one key alone"
    return "one query alone, with dropout" if rows == 1 and asked.dropout_p else None


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
            constraints.same_batch_and_heads,
            _single_or_half_precision,
        ),
        CUDNN: (
            _cudnn_is_there,
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

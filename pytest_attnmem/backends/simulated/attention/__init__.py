"""``scaled_dot_product_attention`` on a CUDA device: which backend it takes, and what that costs.

``sdpa`` takes the place of PyTorch's own; ``RULES`` has what its operators allocate, by name, and
``UNKNOWN`` those of which only a device could tell, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from . import efficient_ops, flash_ops, safe_softmax
from .arguments import AttentionRule
from .sdpa import scaled_dot_product_attention

#: What each operator allocates. A rule gives None for a call that it has no answer to.
RULES: Final[Mapping[str, AttentionRule]] = MappingProxyType(
    {**flash_ops.RULES, **efficient_ops.RULES, **safe_softmax.RULES}
)
_CUDNN: Final = "cuDNN alone knows its workspace"
UNKNOWN: Final[Mapping[str, str]] = MappingProxyType(
    {
        f"aten.{name}.default": _CUDNN
        for name in (
            "_scaled_dot_product_cudnn_attention",
            "_scaled_dot_product_cudnn_attention_backward",
            "_cudnn_attention_forward",
            "_cudnn_attention_backward",
        )
    }
)

__all__ = ["RULES", "UNKNOWN", "scaled_dot_product_attention"]

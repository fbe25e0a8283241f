"""Bags of embeddings: ATen/native/cuda/EmbeddingBag.cu.

CUDA keeps the bag of each index in every mode, and the largest indices in the mode ``max`` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

import torch

from ..wide_dtype import wide

aten = torch.ops.aten
MAX = 2


def with_the(operator: Callable[..., Any]) -> Callable[[SimpleNamespace], tuple[Any, ...]]:
    """Returns a function for one of the two operators, with the outputs that CUDA gives."""

    def bags(call: SimpleNamespace) -> tuple[Any, ...]:
        weight = wide(call.weight)
        each = call.per_sample_weights
        out, _, sizes, largest = operator(
            weight, call.indices, call.offsets, call.scale_grad_by_freq, call.mode, call.sparse,
            None if each is None else each.to(weight.dtype), call.include_last_offset,
            call.padding_idx,
        )  # fmt: skip
        if call.include_last_offset:  # a place for the last offset, which begins no bag
            sizes = torch.cat((sizes[: len(call.offsets) - 1], sizes.new_zeros(1)))
        if call.mode != MAX:
            largest = largest.new_empty(0)
        return out.to(call.weight.dtype), _bag_of_each(call), sizes, largest

    return bags


def _bag_of_each(call: SimpleNamespace) -> torch.Tensor:
    """Returns the bag of each index, as many as the indices, of their dtype."""
    starts = call.offsets[:-1] if call.include_last_offset else call.offsets
    places = torch.arange(len(call.indices), dtype=starts.dtype)
    bags: torch.Tensor = torch.searchsorted(starts.contiguous(), places, right=True) - 1
    return bags.to(call.indices.dtype)


OPERATORS: Final = MappingProxyType(
    {
        "aten._embedding_bag.default": with_the(aten._embedding_bag.default),
        "aten._embedding_bag_forward_only.default": with_the(
            aten._embedding_bag_forward_only.default
        ),
    }
)

"""Sizes and layouts of attention's tensors, from their shapes and strides."""

from __future__ import annotations

from typing import Any, NamedTuple

FLOAT = 4  # bytes: accumulators are float32


class Sizes(NamedTuple):
    """Batch, query heads, key heads, queries, keys and head dims."""

    B: int
    H: int
    Hkv: int
    N: int
    M: int
    d: int
    dv: int


def sizes_of(query: Any, key: Any, value: Any, *, heads_first: bool) -> Sizes:
    """Returns the sizes of tensors that are [B, H, N, d], or else [B, N, H, d]."""
    heads, rows = (1, 2) if heads_first else (2, 1)
    B, H, N, d = (query.shape[dim] for dim in (0, heads, rows, 3))
    return Sizes(B, H, key.shape[heads], N, key.shape[rows], d, value.shape[3])


def round_up(size: int, step: int) -> int:
    """Returns ``size`` rounded up to a multiple of ``step``."""
    return divide_up(size, step) * step


def divide_up(size: int, step: int) -> int:
    """Returns the quotient, rounded up."""
    return -(-size // step)


def rows_contiguous(tensor: Any, *, heads_first: bool) -> bool:
    """Returns True if the tensor is contiguous as [B, N, H, d], as kernels require."""
    by_rows = tensor.transpose(1, 2) if heads_first else tensor
    return bool(by_rows.is_contiguous())

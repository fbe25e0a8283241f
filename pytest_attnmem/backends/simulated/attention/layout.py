"""Sizes and layouts of attention's tensors, from their shapes and strides alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

FLOAT = 4  # bytes: what accumulates is float32


def round_up(size: int, step: int) -> int:
    """The next multiple of *step*."""
    return (size + step - 1) // step * step


def divide_up(size: int, step: int) -> int:
    """The quotient, rounded up."""
    return (size + step - 1) // step


def contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """As ``Tensor.is_contiguous``: the strides of dimensions of size 1 do not matter."""
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 0:
            return True
        if size != 1:
            if stride != expected:
                return False
            expected = expected * size
    return True


def swapped(sizes: Sequence[int]) -> tuple[int, ...]:
    """Sizes, or strides, of a [B, H, N, d] tensor as [B, N, H, d], and the other way round."""
    first, second, third, last = sizes
    return first, third, second, last


def content_bytes(tensor: Any) -> int:
    """Bytes that a copy of this tensor takes."""
    return int(tensor.numel()) * int(tensor.element_size())


def rows_contiguous(tensor: Any, *, heads_first: bool) -> bool:
    """Whether ``tensor`` is contiguous as [B, N, H, d], which is what kernels want."""
    shape, strides = tensor.shape, tensor.stride()
    if heads_first:
        shape, strides = swapped(shape), swapped(strides)
    return contiguous(shape, strides)

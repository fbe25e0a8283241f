"""Sizes and layouts of attention's tensors, from their shapes and strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

FLOAT = 4  # bytes: accumulators are float32


def round_up(size: int, step: int) -> int:
    """Returns ``size`` rounded up to a multiple of ``step``."""
    return (size + step - 1) // step * step


def divide_up(size: int, step: int) -> int:
    """Returns the quotient, rounded up."""
    return (size + step - 1) // step


def contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Returns ``Tensor.is_contiguous``; strides of dimensions of size 1 do not matter."""
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
    """Returns sizes or strides with the middle dimensions swapped, [B, H, N, d] as [B, N, H, d]."""
    first, second, third, last = sizes
    return first, third, second, last


def content_bytes(tensor: Any) -> int:
    """Returns the bytes of a copy of the tensor."""
    return int(tensor.numel()) * int(tensor.element_size())


def rows_contiguous(tensor: Any, *, heads_first: bool) -> bool:
    """Returns True if the tensor is contiguous as [B, N, H, d], as kernels require."""
    shape, strides = tensor.shape, tensor.stride()
    if heads_first:
        shape, strides = swapped(shape), swapped(strides)
    return contiguous(shape, strides)

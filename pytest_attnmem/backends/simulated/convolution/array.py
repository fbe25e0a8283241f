"""The layout of a tensor, and the copies that PyTorch makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

import torch

from ..scratch.op_plan import AllocationPlan
from ..scratch.plan_parts import format_of, temporary
from ..scratch.strides import Operand, is_packed, packed

PLAIN: Final = torch.contiguous_format
#: The alignment in bytes that cuDNN is told of at most (``getAlignment`` of Conv_v8.cpp).
_ALIGNED: Final = 32


@dataclass(frozen=True, slots=True)
class Array:
    """A tensor without data."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    first: int = 0
    """The place of the first element in its storage."""

    @property
    def nbytes(self) -> int:
        """Returns the bytes of the elements without gaps."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def format(self) -> torch.memory_format:
        """Returns the memory format that PyTorch reads from the strides."""
        return format_of(self.shape, self.strides)

    @property
    def alignment(self) -> int:
        """Returns the largest power of two up to 32 that divides the address, in bytes."""
        place = self.first * self.dtype.itemsize
        return min(_ALIGNED, place & -place) if place else _ALIGNED

    def as_2d(self) -> Array:
        """Returns the view of a signal as an image of height 1 (``view4d`` of Convolution.cpp)."""
        (batch, features, length), (b, f, step) = self.shape, self.strides
        return replace(
            self, shape=(batch, features, 1, length), strides=(b, f, length * step, step)
        )

    def as_1d(self) -> Array:
        """Returns the view of an image of height 1 as a signal."""
        shape, strides = ((*of[:2], *of[3:]) for of in (self.shape, self.strides))
        return replace(self, shape=shape, strides=strides)

    def is_contiguous(self, memory_format: torch.memory_format) -> bool:
        """Returns True if the elements lie in the order of a format, without gaps."""
        order = _order(len(self.shape), memory_format)
        return is_packed(Operand(self.shape, self.strides), order)

    def contiguous(self, memory_format: torch.memory_format) -> Array:
        """Returns this layout if it has that format, else the layout of the copy."""
        if self.is_contiguous(memory_format):
            return self
        return made(self.shape, self.dtype, memory_format)

    def for_cudnn(self, memory_format: torch.memory_format) -> list[Any]:
        """Returns sizes, strides and alignment as cuDNN is told them.

        A dimension of size 1 gets the stride that it would have in a format without gaps
        (``fixSizeOneDimStride`` of ATen/cudnn/Descriptors.cpp).
        """
        strides, step = list(self.strides), 1
        for dim in _order(len(self.shape), memory_format):
            if self.shape[dim] == 1:
                strides[dim] = step
            step *= self.shape[dim]
        return [list(self.shape), strides, self.alignment]


def of(tensor: torch.Tensor) -> Array:
    """Returns the layout of a tensor."""
    first = int(tensor.storage_offset())
    return Array(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, first)


def made(
    shape: Sequence[int], dtype: torch.dtype, memory_format: torch.memory_format = PLAIN
) -> Array:
    """Returns the layout of a new tensor."""
    return Array(tuple(shape), packed(shape, _order(len(shape), memory_format)), dtype)


def copying(name: str, before: Array, after: Array, *inner: AllocationPlan) -> AllocationPlan:
    """Returns the inner plans with the copy alive around them, if ``after`` is a copy."""
    return temporary(name, 0 if after is before else after.nbytes, *inner)


def common_format(*arrays: Array) -> torch.memory_format:
    """Returns channels-last if one of the tensors has that format.

    See ``cudnn_conv_suggest_memory_format`` in aten/src/ATen/native/ConvUtils.h.
    """
    if torch.float64 in (array.dtype for array in arrays):
        return PLAIN
    return next((array.format for array in arrays if array.format is not PLAIN), PLAIN)


def _order(rank: int, memory_format: torch.memory_format) -> Sequence[int]:
    """Returns the dimensions from the innermost to the outermost."""
    if memory_format is PLAIN:
        return range(rank - 1, -1, -1)
    return (1, *range(rank - 1, 1, -1), 0)

"""Checks that the elements of a view are in its storage, which ``meta`` does not make.

Source: ``checkInBoundsForStorage`` of aten/src/ATen/native/Resize.h, and
``clone_preserve_strides`` of TensorShape.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .overlaps import Check

_aten = torch.ops.aten


def check_of_bounds(func: Any) -> Check | None:
    """Returns the check of an operator's elements, or None; it raises PyTorch's error."""
    if func is _aten.as_strided.default:
        return _as_strided
    return _as_strided_scatter if func is _aten.as_strided_scatter.default else None


def outside(x: Any, size: Sequence[int], stride: Sequence[int], offset: int | None = None) -> str:
    """Returns PyTorch's error for elements outside the storage of a tensor, or nothing."""
    return _outside(x, size, stride, offset, x.untyped_storage().nbytes())


def _as_strided(args: tuple[Any, ...], kwargs: Mapping[str, Any], _: Any) -> None:
    if text := outside(*args, *kwargs.values()):
        raise RuntimeError(text)


def _as_strided_scatter(args: tuple[Any, ...], kwargs: Mapping[str, Any], _: Any) -> None:
    """Checks the elements that it writes, in a copy that ends with its input's last element."""
    x, _source, size, stride, *offset = (*args, *kwargs.values())
    nbytes = _end(x, x.shape, x.stride(), x.storage_offset())
    if text := _outside(x, size, stride, offset[0] if offset else None, nbytes):
        raise RuntimeError(text)


def _outside(
    x: Any, size: Sequence[int], stride: Sequence[int], offset: int | None, nbytes: int
) -> str:
    offset = x.storage_offset() if offset is None else offset
    needed = _end(x, size, stride, offset)
    if not all(size) or min(stride, default=0) < 0 or needed <= nbytes:
        return ""
    return (
        f"setStorage: sizes {[*size]}, strides {[*stride]}, storage offset {offset}, and itemsize"
        f" {x.dtype.itemsize} requiring a storage size of {needed} are out of bounds for storage of"
        f" size {nbytes}"
    )


def _end(x: Any, size: Sequence[int], stride: Sequence[int], offset: int) -> int:
    """Returns the bytes of a storage up to the last element."""
    last = sum((n - 1) * step for n, step in zip(size, stride, strict=False))
    return int((offset + last + 1) * x.dtype.itemsize)

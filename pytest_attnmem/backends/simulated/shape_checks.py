"""Checks of sizes that CUDA's operators make, and their kernels for ``meta`` do not.

Source: aten/src/ATen/native/ReduceOpsUtils.h, TensorShape.cpp and TensorAdvancedIndexing.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import torch

from .overlaps import Check
from .scratch.strides import is_contiguous, kept_strides
from .scratch.tensor_bytes import row_stride

_aten = torch.ops.aten
_NEEDS: Final = "Expected reduction dim {}to have non-zero size."
_NEEDS_ONE: Final = "{}(): Expected reduction dim to be specified for input.numel() == 0."
_NAME_IT: Final = " Specify the reduction dim with the 'dim' argument."


def check_of_shapes(func: Any) -> Check | None:
    """Returns the check of an operator's sizes, or None; it raises PyTorch's error."""
    return _CHECKS.get(func)


def _reduce(
    name: str, dim_at: int, args: tuple[Any, ...], kwargs: Mapping[str, Any], _: Any
) -> None:
    x = args[0]
    if x.numel():
        return
    dim = args[dim_at] if len(args) > dim_at else kwargs.get("dim")
    if dim is None and name.startswith("arg"):
        raise IndexError(_NEEDS_ONE.format(name))
    if dim is None and name == "aminmax":
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no"
            " identity."
        )
    if dim is None or dim in ([], ()):
        raise RuntimeError(_NEEDS_ONE.format(name) + _NAME_IT)
    listed = isinstance(dim, (list, tuple))
    for each in dim if listed else (dim,):
        if x.dim() and not x.shape[each]:
            shown = each if listed else each % x.dim()
            call = "aminmax" if name == "aminmax" else f"{name}()"
            raise IndexError(f"{call}: {_NEEDS.format(f'{shown} ')}")


def _slice(args: tuple[Any, ...], _: Mapping[str, Any], __: Any) -> None:
    if not args[0].dim():
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")


def _index(args: tuple[Any, ...], _: Mapping[str, Any], __: Any) -> None:
    if _reads_nothing(args[0], args[1]):
        raise IndexError("index is out of bounds for dimension with size 0")


def _reads_nothing(x: Any, indices: Any) -> bool:
    """Returns True if an index of places, not a mask, numbers some in a dimension without any."""
    if x.numel() or len(indices) > x.dim():
        return False
    places = [i for i in indices if i is not None]
    if any(place.dtype in (torch.bool, torch.uint8) for place in places):
        return False
    pairs = zip(indices, x.shape, strict=False)
    shape = torch.broadcast_shapes(*(place.shape for place in places))
    return 0 not in shape and any(i is not None and not size for i, size in pairs)


def _write_outside(
    args: tuple[Any, ...], _: Mapping[str, Any], refused: Callable[[str], Exception]
) -> None:
    if _reads_nothing(args[0], args[1]):
        raise refused("a write by an index into a dimension of size 0 fails on CUDA")


def _along(
    at: int, args: tuple[Any, ...], _: Mapping[str, Any], refused: Callable[[str], Exception]
) -> None:
    x, dim, index = args[0], args[1], args[at]
    if x.dim() and not x.shape[dim] and index.numel():
        raise refused("an index along a dimension of size 0 fails on CUDA")


def _put(args: tuple[Any, ...], _: Mapping[str, Any], __: Any) -> None:
    if not args[0].numel() and args[1].numel():
        raise IndexError("put_(): Tried to put elements into an empty tensor")


def _resizes(
    args: tuple[Any, ...], _: Mapping[str, Any], refused: Callable[[str], Exception]
) -> None:
    x, left, right = args[:3]
    if left.dim() == right.dim() == 3 and x.shape != (left.shape[1], right.shape[2]):
        raise refused("addbmm_ into a tensor of another shape than its result's resizes it on CUDA")


def _cat(args: tuple[Any, ...], kwargs: Mapping[str, Any], _: Any) -> None:
    tensors = args[0]
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    for place, tensor in enumerate(tensors):
        if not tensor.dim():
            raise RuntimeError(
                f"zero-dimensional tensor (at position {place}) cannot be concatenated"
            )
    first = next((tensor for tensor in tensors if tensor.shape != (0,)), None)
    if first is None or not -first.dim() <= dim < first.dim():
        return
    dim %= first.dim()
    for place, tensor in enumerate(tensors):
        if tensor.shape == first.shape or tensor.shape == (0,):
            continue
        if tensor.dim() != first.dim():
            raise RuntimeError(
                f"Tensors must have same number of dimensions: got {first.dim()} and {tensor.dim()}"
            )
        for at, (expected, size) in enumerate(zip(first.shape, tensor.shape, strict=True)):
            if at != dim and size != expected:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size"
                    f" {expected} but got size {size} for tensor number {place} in the list."
                )


def _stack(args: tuple[Any, ...], _: Mapping[str, Any], __: Any) -> None:
    if not args[0]:
        return
    first = [*args[0][0].shape]
    for place, tensor in enumerate(args[0]):
        if [*tensor.shape] != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {first} at entry 0 and"
                f" {[*tensor.shape]} at entry {place}"
            )


def _max_pool(args: tuple[Any, ...], _: Mapping[str, Any], __: Any) -> None:
    if args[0].dim() not in (3, 4):
        raise RuntimeError("non-empty 3D or 4D (batch mode) tensor expected for input")


def _resized(args: tuple[Any, ...], _: Mapping[str, Any], __: Any) -> None:
    """An empty batch can be resized, but nothing else that is empty (``UpSample.h``)."""
    x, sizes, output = args[0], args[0].shape[2:], args[1]
    if len(sizes) == len(output) and not (all(sizes) and all(size > 0 for size in output)):
        joined = " and" if len(sizes) == 1 else ""
        raise RuntimeError(
            "Input and output sizes should be greater than 0, but got input"
            f" ({_by_axis(sizes)}){joined} output ({_by_axis(output)})"
        )
    if 0 in x.shape[1:]:
        raise RuntimeError(
            f"Non-empty {x.dim()}D data tensor expected but got a tensor with sizes {[*x.shape]}"
        )


def _by_axis(sizes: Sequence[int]) -> str:
    return ", ".join(f"{axis}: {n}" for axis, n in zip("DHW"[-len(sizes) :], sizes, strict=True))


def _adaptive_pool(
    name: str, first: int, args: tuple[Any, ...], _: Mapping[str, Any], __: Any
) -> None:
    shape = args[0].shape
    for dim in range(len(shape) + first, len(shape)):
        if not shape[dim]:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but"
                f" input has sizes {[*shape]} with dimension {dim} being empty"
            )


def _permutation(args: tuple[Any, ...], _: Mapping[str, Any], __: Any) -> None:
    if args[0] < 0:
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {args[0]}: [{args[0]}]"
        )


def _index_select(args: tuple[Any, ...], _: Mapping[str, Any], __: Any) -> None:
    if args[2].dim() > 1:
        raise RuntimeError("Index is supposed to be an empty tensor or a vector")


def _channel_shuffle(args: tuple[Any, ...], _: Mapping[str, Any], __: Any) -> None:
    """CUDA has one view of the pixels of a channel; the CPU makes them contiguous."""
    x = args[0]
    if x.numel() and row_stride(x.shape[2:], x.stride()[2:]) is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one"
            " dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )


def _gradient_of_pixels(args: tuple[Any, ...], _: Mapping[str, Any], __: Any) -> None:
    """The gradient keeps the order of the input, and the kernel takes one order alone."""
    x = args[1]
    if not is_contiguous(x.shape, kept_strides(x.shape, x.stride())):
        raise RuntimeError("grad_input must be contiguous")


_CHECKS: Final[Mapping[Any, Check]] = MappingProxyType(
    {
        _aten.addbmm_.default: _resizes,
        _aten.max.default: partial(_reduce, "max", 1),
        _aten.min.default: partial(_reduce, "min", 1),
        _aten.max.dim: partial(_reduce, "max", 1),
        _aten.min.dim: partial(_reduce, "min", 1),
        _aten.argmax.default: partial(_reduce, "argmax", 1),
        _aten.argmin.default: partial(_reduce, "argmin", 1),
        _aten.amax.default: partial(_reduce, "amax", 1),
        _aten.amin.default: partial(_reduce, "amin", 1),
        _aten.aminmax.default: partial(_reduce, "aminmax", 1),
        _aten.median.dim: partial(_reduce, "median", 1),
        _aten.nanmedian.dim: partial(_reduce, "median", 1),
        _aten.mode.default: partial(_reduce, "mode", 1),
        _aten.kthvalue.default: partial(_reduce, "kthvalue", 2),
        _aten.index.Tensor: _index,
        _aten.index_put.default: _write_outside,
        _aten.index_put_.default: _write_outside,
        _aten.gather.default: partial(_along, 2),
        _aten.index_add_.default: partial(_along, 2),
        _aten.index_copy_.default: partial(_along, 2),
        _aten.index_fill_.int_Scalar: partial(_along, 2),
        _aten.put_.default: _put,
        _aten.index_select.default: _index_select,
        _aten.slice_scatter.default: _slice,
        _aten.nll_loss2d_backward.default: _gradient_of_pixels,
        _aten.cat.default: _cat,
        _aten.channel_shuffle.default: _channel_shuffle,
        _aten.stack.default: _stack,
        _aten.max_pool2d_with_indices.default: _max_pool,
        **{
            getattr(_aten, name).default: _resized
            for name in (
                *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
                *("_upsample_nearest_exact1d", "_upsample_nearest_exact2d"),
                *("_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d"),
                *("upsample_bicubic2d", "upsample_trilinear3d"),
            )
        },
        _aten._adaptive_avg_pool2d.default: partial(_adaptive_pool, "adaptive_avg_pool2d", -2),
        _aten._adaptive_avg_pool3d.default: partial(_adaptive_pool, "adaptive_avg_pool3d_cuda", -4),
        _aten.randperm.default: _permutation,
        _aten.randperm.generator: _permutation,
    }
)

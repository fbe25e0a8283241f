"""Writes into tensors whose elements share memory, among themselves or with a tensor that is read.

PyTorch refuses most of them (aten/src/ATen/MemoryOverlap.cpp), but its kernels for ``meta`` have no
such check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import torch

from .scratch.strides import dense_without_overlap

#: Checks a call; the last argument records why a window is not enforced, and makes its error.
Check = Callable[[tuple[Any, ...], Mapping[str, Any], Callable[[str], Exception]], None]

_COPY: Final = "aten::copy_"
_CAT: Final = "aten::cat"
#: Pointwise operators that write into such a tensor.
_ALLOWED: Final = frozenset({"aten::conj_physical_", "aten::fill_", "aten::masked_fill_"})
#: Other operators that do not.
_REFUSED: Final = frozenset(
    f"aten::{name}_"
    for name in (
        *("abs", "bernoulli", "cauchy", "copy", "exponential", "gelu"),
        *("hardswish", "index_add", "index_copy", "lerp", "log_normal", "masked_scatter", "mish"),
        *("normal", "put", "random", "rrelu_with_noise", "scatter", "scatter_add", "uniform"),
    )
)
#: Those that allocate before they do not.
_REFUSED_LATE: Final = frozenset(
    f"aten::{name}_"
    for name in ("cumsum", "cumprod", "addmm", "addbmm", "baddbmm", "addmv", "addr")
)
_FOREACH: Final = "aten::_foreach_"
_REFUSAL: Final = (
    "unsupported operation: {} memory location. Please clone() the tensor before performing the"
    " operation."
)
_SHARED: Final = "more than one element of the written-to tensor refers to a single"
_PARTLY: Final = "some elements of the input tensor and the written-to tensor refer to a single"


def check_of_writes(func: Any) -> Check | None:
    """Returns the check of an operator that refuses tensors whose elements share memory.

    The check raises the ``RuntimeError`` of PyTorch.
    """
    schema = getattr(func, "_schema", None)
    if schema is None or not schema.name.startswith("aten::"):
        return None
    name: str = schema.name
    pointwise = torch.Tag.pointwise in func.tags
    if any(argument.is_out for argument in schema.arguments):
        if name == _CAT:
            return _check_cat
        return _check_out if pointwise else _check_late
    if name.startswith(_FOREACH):
        return _check_list if name.endswith("_") and name != "aten::_foreach_zero_" else None
    if name in _REFUSED_LATE:
        return _check_late
    if schema.is_mutable and (name in _REFUSED or (pointwise and name not in _ALLOWED)):
        return _check_copy if name == _COPY else _check_in_place
    return None


def _check_in_place(args: tuple[Any, ...], kwargs: Mapping[str, Any], _: Any) -> None:
    _check_written(args[0])
    if len(args) > 1 or kwargs:
        _check_read(args[0], (*args[1:], *kwargs.values()))


def _check_copy(args: tuple[Any, ...], _: Mapping[str, Any], __: Any) -> None:
    if not _is_same(args[0], args[1]):  # which does nothing
        _check_in_place(args, {}, None)


def _check_out(args: tuple[Any, ...], kwargs: Mapping[str, Any], _: Any) -> None:
    read = [arg for arg in args if isinstance(arg, torch.Tensor)]
    shapes = {tensor.shape for tensor in read}
    for out in _outputs(kwargs):
        if {out.shape} == shapes or out.shape == torch.broadcast_shapes(*shapes):
            _check_written(out)
            _check_read(out, read)


def _check_cat(args: tuple[Any, ...], kwargs: Mapping[str, Any], _: Any) -> None:
    for out in _outputs(kwargs):
        _check_written(out)
        _check_read(out, args[0])


def _check_list(args: tuple[Any, ...], _: Mapping[str, Any], __: Any) -> None:
    for tensor in args[0]:
        _check_written(tensor)


def _check_late(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], refused: Callable[[str], Exception]
) -> None:
    for tensor in _outputs(kwargs) if kwargs else args[:1]:
        if isinstance(tensor, torch.Tensor) and _overlaps_itself(tensor):
            refused("a write into a tensor whose elements share memory fails on CUDA")
            raise RuntimeError(_REFUSAL.format(_SHARED))


def _outputs(kwargs: Mapping[str, Any]) -> Iterator[Any]:
    return (value for value in kwargs.values() if isinstance(value, torch.Tensor))


def _check_written(tensor: Any) -> None:
    if _overlaps_itself(tensor):
        raise RuntimeError(_REFUSAL.format(_SHARED))


def _overlaps_itself(tensor: Any) -> bool:
    if 0 not in tensor.stride() or not tensor.numel():
        return False
    sizes = zip(tensor.stride(), tensor.shape, strict=True)
    return any(stride == 0 and size > 1 for stride, size in sizes)


def _check_read(written: Any, read: Iterable[Any]) -> None:
    storage = None
    for tensor in read:
        if not isinstance(tensor, torch.Tensor) or tensor is written:
            continue
        storage = storage or _storage(written)
        if _storage(tensor) == storage and _overlap_partly(written, tensor):
            raise RuntimeError(_REFUSAL.format(_PARTLY))


def _storage(tensor: torch.Tensor) -> int:
    """Returns what tells a storage from others.

    The Python object of a storage would be an owner of it, and autograd writes only into storages
    that have one.
    """
    if tensor.is_cuda and type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__:
        return tensor.data_ptr() - int(tensor.storage_offset()) * tensor.element_size()
    return int(tensor.untyped_storage()._cdata)


def _overlap_partly(written: Any, read: Any) -> bool:
    """Returns True if two dense tensors share a part of their elements, or all in another order."""
    if not (written.numel() and read.numel() and _is_dense(written) and _is_dense(read)):
        return False
    places = _place(written), _place(read)
    if places[0] == places[1]:
        return bool(written.stride() != read.stride())
    return places[0].start < places[1].stop and places[1].start < places[0].stop


def _place(tensor: Any) -> range:
    """Returns the bytes of a dense tensor in its storage."""
    start = tensor.storage_offset() * tensor.itemsize
    return range(start, start + tensor.numel() * tensor.itemsize)


def _is_dense(tensor: Any) -> bool:
    return dense_without_overlap(tensor.shape, tensor.stride())


def _is_same(first: Any, second: Any) -> bool:
    """Returns True if two tensors are the same view of a storage."""
    return (
        isinstance(second, torch.Tensor)
        and _storage(first) == _storage(second)
        and first.storage_offset() == second.storage_offset()
        and first.shape == second.shape
        and first.stride() == second.stride()
        and first.dtype == second.dtype
    )

"""Scattering operators under deterministic algorithms, which sort the indices and put the values.

Sources: ``_scatter_via_index_put`` and ``scatter_reduce_two`` in
aten/src/ATen/native/TensorAdvancedIndexing.cpp, ``index_add_cuda_impl`` in
aten/src/ATen/native/cuda/Indexing.cu.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import torch

from .deterministic_ops import algorithms

_aten = torch.ops.aten
_SUMS: Final = ("sum", "mean")


def _run(op: Any, functional: Any, change: Callable[..., None], *args: Any, **kwargs: Any) -> Any:
    """Runs an operator; returns NotImplemented for a call that a rule of ``scratch`` plans."""
    on_host = any(isinstance(x, torch.Tensor) and x.device.type == "cpu" for x in args)
    reduces = op in (_aten.scatter_reduce.two, _aten.scatter_reduce_.two)
    if not algorithms() or on_host or (reduces and args[4] not in _SUMS):
        return NotImplemented
    functional(*map(_without_data, args), **kwargs)  # for the checks that no step below makes
    x = out = args[0]
    if op is functional:
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device).copy_(x)
    change(out, args[1] % max(out.dim(), 1), *args[2:], **kwargs)
    return out


def _without_data(arg: Any) -> Any:
    if not isinstance(arg, torch.Tensor):
        return arg
    return torch.empty_strided(arg.shape, arg.stride(), dtype=arg.dtype, device="meta")


def _check_dims(out: Any) -> None:
    if not out.dim():
        raise IndexError("too many indices for tensor of dimension 0 (got 1)")


def _put(accumulate: bool, out: Any, dim: int, index: Any, source: Any) -> None:
    """Puts values at places of which ``index`` is one coordinate, and their own place the rest."""
    if not index.numel():
        return
    _check_dims(out)
    indices = []
    for other, size in enumerate(index.shape):
        if other == dim:
            indices.append(index)
            continue
        shape = [1] * out.dim()
        shape[other] = size
        indices.append(torch.arange(size, dtype=index.dtype, device=out.device).view(shape))
    values = source.as_strided(index.shape, source.stride())
    _aten.index_put_.default(out, indices, values, accumulate)


def _reduce(
    out: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> None:
    """Adds the values; a mean counts those of each element."""
    if not include_self:
        out.scatter_(dim, index, 0)
    _put(True, out, dim, index, source)
    if reduce == "mean":
        ones = torch.ones_like(source)
        count = torch.ones_like(out) if include_self else torch.zeros_like(out)
        count.scatter_add_(dim, index, ones)
        count.masked_fill_(count == 0, 1)
        divides = out.is_floating_point() or out.is_complex()
        out.div_(count, rounding_mode=None if divides else "floor")


def _add_rows(out: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> None:
    if index.numel():
        _put_rows(True, out, dim, index, source * alpha)


def _put_rows(accumulate: bool, out: Any, dim: int, index: Any, source: Any) -> None:
    if not index.numel():
        return
    _check_dims(out)
    _aten.index_put_.default(out, [None] * dim + [index], source, accumulate)


#: The operators that change a copy, those that change their first argument, and how they do.
_OPERATORS: Final[tuple[tuple[Any, Any, Callable[..., None]], ...]] = (
    (_aten.scatter.src, _aten.scatter_.src, partial(_put, False)),
    (_aten.scatter_add.default, _aten.scatter_add_.default, partial(_put, True)),
    (_aten.scatter_reduce.two, _aten.scatter_reduce_.two, _reduce),
    (_aten.index_add.default, _aten.index_add_.default, _add_rows),
    (_aten.index_copy.default, _aten.index_copy_.default, partial(_put_rows, False)),
)
#: The functions by operator.
SCATTERS: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {
        op: partial(_run, op, functional, change)
        for functional, in_place, change in _OPERATORS
        for op in (functional, in_place)
    }
)

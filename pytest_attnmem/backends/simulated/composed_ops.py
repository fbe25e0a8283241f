"""Operators that ATen composes of others below autograd, as Python code with the same calls.

Each function frees its tensors where the C++ code does. It returns NotImplemented for calls that
a rule of the folder ``scratch`` plans. Sources, in aten/src/ATen/native: Distributions.cpp,
DistributionTemplates.h, TensorCompare.cpp and TensorAdvancedIndexing.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, prod
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import Tensor

from .data_sized_outputs import INTO_TARGETS
from .deterministic_ops import algorithms
from .grids import GRIDS
from .grouped_products import grouped_mm
from .index_tensors import (
    MASKS,
    any_on_host,
    are_numbers,
    as_numbers,
    check_masks,
    expanded,
    on_device,
    tells_count,
)
from .kernel_checks import MOST_CATEGORIES
from .membership import is_in
from .packed_sequences import pack_padded
from .scratch.comparing import are_alike
from .sorted_scatter import SCATTERS
from .trilinear import trilinear
from .windows import WINDOWS

_aten = torch.ops.aten


def _multinomial(
    self: Any, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> Any:
    """Draws without replacement, or once: the places of the largest quotients."""
    if not replacement and self.dim() and num_samples > self.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    drawn_at_once = num_samples == 1 or (num_samples > 1 and not replacement)
    if not (drawn_at_once and self.numel() and 0 < self.dim() <= 2):
        return NotImplemented
    if self.shape[-1] > MOST_CATEGORIES:
        return NotImplemented
    result = torch.empty((*self.shape[:-1], num_samples), dtype=torch.int64, device=self.device)
    least, most = torch.aminmax(self)
    finite = most < inf
    positive = least >= 0
    valid = finite & positive
    del finite, positive
    zero = _sums_to_zero(self)
    torch.logical_not(zero)
    noise = torch.empty_like(self).exponential_(1.0, generator=generator)
    torch.div(self, noise, out=noise)
    if num_samples == 1:
        torch.argmax(noise, -1, True, out=result)
    else:
        values = torch.empty(result.shape, dtype=self.dtype, device=self.device)
        torch.topk(noise, num_samples, out=(values, result))
    del valid
    return result


def _sums_to_zero(x: Any) -> Any:
    if x.dim() == 1:
        total = x.sum()
        return total == 0
    total = x.sum(1)
    each = total == 0
    return each.any()


def _check_deviation(std: Any) -> None:
    """Reads if a standard deviation is negative, as the C++ code does."""
    if std.numel():
        least = std.min()
        torch._check(bool((least >= 0).item()), lambda: "normal expects all elements of std >= 0.0")


def _normal(mean: Any, std: Any, generator: Any = None) -> Any:
    """Draws around a tensor with a tensor of deviations; each of two functions checks them."""
    _check_deviation(std)
    shape = torch.broadcast_shapes(mean.shape, std.shape)
    made = torch.empty(shape, dtype=mean.dtype, device=std.device)
    _check_deviation(std)
    return made.normal_(0, 1, generator=generator).mul_(std).add_(mean)


def _normal_around_number(mean: float, std: Any, generator: Any = None) -> Any:
    _check_deviation(std)
    made = torch.empty(std.shape, dtype=std.dtype, device=std.device)
    _check_deviation(std)
    center = torch.full((), mean, dtype=made.dtype, device=made.device)
    made.normal_(0, 1, generator=generator).mul_(std).add_(center)
    return made


def _clamped(x: Any, indices: Any) -> list[Any]:
    """Returns the indices, each within the bounds of its dimension."""
    found = list(indices)
    for dim, index in enumerate(found):
        if index is not None:
            found[dim] = index.clamp(-x.shape[dim], x.shape[dim] - 1)
    return found


def _masked_index(self: Any, mask: Any, indices: Any, fill: Any) -> Any:
    found = _clamped(self, indices)
    if not self.numel():
        given = [index is not None for index in indices] + [False] * self.dim()
        sizes = [1 if size == 0 and given[dim] else size for dim, size in enumerate(self.shape)]
        return _aten._unsafe_index(self.new_full(sizes, fill), found)
    result = _aten._unsafe_index(self, found)
    return result.masked_fill(mask.logical_not(), fill)


def _masked_put(self: Any, mask: Any, indices: Any, values: Any) -> Any:
    if not self.numel():
        return self.clone()
    found = _clamped(self, indices)
    kept = values.masked_fill(mask.logical_not(), 0)
    return _aten._unsafe_index_put(self, found, kept, True)


def _by_masks(self: Any, indices: Any) -> tuple[int, int]:
    """Returns the numbers of masks of the device among the indices, and of other indices."""
    check_masks(self, indices)
    given = [index for index in indices if index is not None]
    masks = sum(index.dtype in MASKS and index.device == self.device for index in given)
    return masks, len(given) - masks


def _index(self: Any, indices: Any) -> Any:
    """Reads elements by tensors of the host, or by several indices, of which one is a mask."""
    if any_on_host(self, indices):
        return _aten.index.Tensor(self, on_device(self, indices))
    masks, others = _by_masks(self, indices)
    of_bytes = any(index is not None and index.dtype is torch.uint8 for index in indices)
    if not masks or (masks + others == 1 and not of_bytes):
        return NotImplemented
    return _aten.index.Tensor(self, expanded(indices))


def _unsafe_index(self: Any, indices: Any) -> Any:
    if not any_on_host(self, indices):
        return NotImplemented
    return _aten._unsafe_index.Tensor(self, on_device(self, indices))


def _index_put_(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Writes elements by tensors of the host, or by masks whose elements the values do not tell."""
    sorts = accumulate or bool(algorithms() and values.numel() > 1)
    if any_on_host(self, indices):
        if sorts and are_numbers(indices):
            return NotImplemented
        if sorts:
            return _aten.index_put_.default(self, as_numbers(indices), values, accumulate)
        if values.device != self.device and not values.dim():
            values = values.to(self.device)
        return _aten.index_put_.default(self, on_device(self, indices), values)
    masks, others = _by_masks(self, indices)
    if not masks or sorts:
        return NotImplemented
    on_host = values.device != self.device
    if masks + others == 1 and (on_host or tells_count(self, indices, values)):
        return NotImplemented
    if on_host:
        values = values.to(self.device)
    return _aten.index_put_.default(self, expanded(indices), values)


def _index_put_impl_(
    self: Any, indices: Any, values: Any, accumulate: bool = False, unsafe: bool = False
) -> Any:
    """Adds values at tensors of the host, in backward too; the fake mode knows no such call."""
    if accumulate and any_on_host(self, indices):
        return _aten.index_put_.default(self, as_numbers(indices), values, accumulate)
    return _index_put_(self, indices, values, accumulate)


def _index_put(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    on_host = any_on_host(self, indices)
    masks, others = _by_masks(self, indices)
    told = masks + others == 1 and (
        values.device != self.device or tells_count(self, indices, values)
    )
    if not on_host and (told or not masks or accumulate):
        return NotImplemented
    copy = self.clone(memory_format=torch.preserve_format)
    if on_host:
        return _aten.index_put_.default(copy, indices, values, accumulate)
    return _index_put_(copy, indices, values)


def _masked_scatter_backward(grad: Any, mask: Any, sizes: Any) -> Any:
    numel = prod(sizes)
    selected = grad.masked_select(mask)
    missing = numel - selected.numel()
    if missing > 0:
        rest = torch.zeros(missing, dtype=grad.dtype, device=grad.device)
        selected = torch.cat([selected, rest])
    return selected.view(sizes)


def _all_close(
    self: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """Compares tensors of two layouts, dtypes or shapes, or of integers or complex numbers."""
    if are_alike(self, other) and not equal_nan:
        return NotImplemented
    return bool(torch.isclose(self, other, rtol, atol, equal_nan).all().item())


def _steps_between(op: Any) -> Callable[..., Any]:
    """Returns what reads the ends of ``linspace``, numbers in tensors of any device."""
    name = op._schema.name.removeprefix("aten::")

    def run(start: Any, end: Any, steps: int, *args: Any, **kwargs: Any) -> Any:
        given = [
            (at, one) for at, one in (("start", start), ("end", end)) if isinstance(one, Tensor)
        ]
        if any(one.dim() for _, one in given):
            found = " and ".join(f"{at} with {one.dim()} dimension(s)" for at, one in given)
            wanted = f"{name} only supports 0-dimensional start and end tensors"
            raise RuntimeError(f"{wanted}, but got {found}.")
        ends = [one.item() if isinstance(one, Tensor) else one for one in (start, end)]
        return op(*ends, steps, *args, **kwargs)

    return run


def _is_set_to(self: Any, tensor: Any) -> bool:
    """Returns True if both tensors have the same elements of the same storage."""
    if self.untyped_storage()._cdata != tensor.untyped_storage()._cdata:
        return False
    places = [(one.storage_offset(), one.shape, one.stride()) for one in (self, tensor)]
    return bool(places[0] == places[1])


def _where(condition: Any, self: Any, other: Any) -> Any:
    """Chooses by a mask of bytes, which CUDA copies to one of booleans."""
    if condition.dtype is not torch.uint8:
        return NotImplemented
    return torch.where(condition.to(torch.bool), self, other)


def _group_norm(
    x: Any, _weight: Any, _bias: Any, batch: Any, _c: Any, _elements: Any, groups: Any, _eps: Any
) -> Any:
    """Returns the results for no elements, which launch no kernel, whatever the dtype."""
    if x.numel() or x.dtype.is_floating_point:
        return NotImplemented
    return torch.empty_like(x), x.new_empty(batch, groups), x.new_empty(batch, groups)


#: The functions by operator. The fake mode calls them, so autograd knows one operator.
COMPOSED: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {
        _aten.multinomial.default: _multinomial,
        _aten.normal.Tensor_Tensor: _normal,
        _aten.normal.float_Tensor: _normal_around_number,
        _aten.isin.Tensor_Tensor: is_in,
        _aten.allclose.default: _all_close,
        _aten.index.Tensor: _index,
        _aten._unsafe_index.Tensor: _unsafe_index,
        _aten.index_put.default: _index_put,
        _aten.index_put_.default: _index_put_,
        _aten._index_put_impl_.default: _index_put_impl_,
        _aten._unsafe_masked_index.default: _masked_index,
        _aten._unsafe_masked_index_put_accumulate.default: _masked_put,
        _aten._trilinear.default: trilinear,
        _aten._grouped_mm.default: grouped_mm,
        **WINDOWS,
        _aten._pack_padded_sequence.default: pack_padded,
        _aten.masked_scatter_backward.default: _masked_scatter_backward,
        _aten.where.self: _where,
        _aten.is_set_to.default: _is_set_to,
        **{
            getattr(op, overload): _steps_between(op.default)
            for op in (_aten.linspace, _aten.logspace)
            for overload in ("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")
        },
        _aten.native_group_norm.default: _group_norm,
        **GRIDS,
        **INTO_TARGETS,
        **SCATTERS,
    }
)

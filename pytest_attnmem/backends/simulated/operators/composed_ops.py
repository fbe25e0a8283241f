"""Operators that ATen composes of others below autograd, as Python code with the same calls.

Each function frees its tensors where the C++ code does. It returns NotImplemented for calls that
a rule of the folder ``scratch`` plans. Of index tensors, masks become places, and those of the host
are moved; the copies are on the device as long as the operator runs. Sources, in
aten/src/ATen/native: Distributions.cpp, DistributionTemplates.h, TensorCompare.cpp,
TensorAdvancedIndexing.cpp (``make_info``), IndexingUtils.h (``expandTensors``), cuda/Indexing.cu
(``makeLinearIndex``) and cuda/GroupedBlas.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from types import MappingProxyType
from typing import Any, Final

import torch

from ..scratch.matmul import has_kernel

#: The types of indices that choose the elements where they are true.
_MASKS: Final = (torch.bool, torch.uint8)


def expanded(indices: Any) -> list[Any]:
    """Returns the indices, with the places of the elements of each mask."""
    found: list[Any] = []
    for index in indices:
        if index is not None and index.dtype in _MASKS:
            places = index.nonzero()
            found += [places.select(1, dim) for dim in range(index.dim())]
        else:
            found.append(index)
    return found


def tells_count(tensor: Any, indices: Any, values: Any) -> bool:
    """Returns True if the shape of ``values`` tells how many elements the only mask has."""
    dim, mask = next((dim, index) for dim, index in enumerate(indices) if index is not None)
    behind = tensor.dim() - dim - mask.dim()
    return bool(values.dim() > behind and values.shape[-behind - 1] != 1)


def any_on_host(tensor: Any, indices: Any) -> bool:
    """Returns True if tensors of the host index one of the device."""
    if tensor.device.type == "cpu":
        return False
    return any(index is not None and index.device.type == "cpu" for index in indices)


def on_device(tensor: Any, indices: Any) -> list[Any]:
    """Returns the indices as an operator reads them: of one shape, on the device, as int64."""
    found = _of_one_shape(expanded(indices))
    for dim, index in enumerate(found):
        if index is not None and index.device != tensor.device:
            found[dim] = index.to(tensor.device)
    for dim, index in enumerate(found):
        if index is not None and index.dtype is torch.int32:
            found[dim] = index.to(torch.int64)
    return found


def are_numbers(indices: Any) -> bool:
    """Returns True if each index is of int64."""
    return all(index is None or index.dtype is torch.int64 for index in indices)


def as_numbers(indices: Any) -> list[Any]:
    """Returns the indices as int64; the sort of ``index_put_`` reads them where they are."""
    return [
        index.to(torch.int64) if index is not None and index.dtype is torch.int32 else index
        for index in expanded(indices)
    ]


def _of_one_shape(indices: list[Any]) -> list[Any]:
    shapes = [index.shape for index in indices if index is not None]
    try:
        shape = torch.broadcast_shapes(*shapes)
    except RuntimeError:  # the operator itself has the error
        return indices
    return [
        index if index is None or index.shape == shape else index.expand(shape) for index in indices
    ]


_aten = torch.ops.aten
#: The bytes that a row of the output is a multiple of.
_ALIGNMENT: Final = 16


def _multinomial(
    self: Any, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> Any:
    """Draws without replacement, or once: the places of the largest quotients."""
    if (replacement and num_samples != 1) or not self.numel():
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


def _by_masks(self: Any, indices: Any) -> tuple[int, int]:
    """Returns the numbers of masks of the device among the indices, and of other indices."""
    given = [index for index in indices if index is not None]
    masks = sum(index.dtype in _MASKS and index.device == self.device for index in given)
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


def _index_put_(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Writes elements by tensors of the host, or by masks whose elements the values do not tell."""
    if any_on_host(self, indices):
        if accumulate and are_numbers(indices):
            return NotImplemented
        if accumulate:
            return _aten.index_put_.default(self, as_numbers(indices), values, accumulate)
        if values.device != self.device and not values.dim():
            values = values.to(self.device)
        return _aten.index_put_.default(self, on_device(self, indices), values)
    masks, others = _by_masks(self, indices)
    if not masks or accumulate:
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


def _where(condition: Any, self: Any, other: Any) -> Any:
    """Chooses by a mask of bytes, which CUDA copies to one of booleans."""
    if condition.dtype is not torch.uint8:
        return NotImplemented
    return torch.where(condition.to(torch.bool), self, other)


def _is_in(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    """Returns which elements are among a few others: each is compared."""
    if elements.numel() and test_elements.numel() >= int(10.0 * elements.numel() ** 0.145):
        return NotImplemented  # all are sorted
    out = torch.empty(elements.shape, dtype=torch.bool, device=elements.device)
    if not elements.numel():
        return out
    out.fill_(invert)
    row = test_elements.view([1] * elements.dim() + [test_elements.numel()])
    compared = elements.unsqueeze(-1).ne(row) if invert else elements.unsqueeze(-1).eq(row)
    found = compared.all(-1) if invert else compared.any(-1)
    return out.copy_(found)


def _grouped_mm(
    self: Any, mat2: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> Any:
    """Multiplies groups: [M, K] or [G, M, K] by [K, N] or [G, K, N].

    Hopper and Blackwell have one kernel for all groups of bfloat16, whose rule is in ``scratch``.
    ``offs`` [G] are the ends of the groups along the dimension that one of the tensors lacks.
    """
    if has_kernel(self, mat2, out_dtype, torch.cuda.get_device_capability()[0]):
        return NotImplemented
    out = _output(self, mat2, offs, out_dtype or self.dtype)
    if self.dim() == mat2.dim() == 3:
        return torch.bmm(self, mat2, out=out)
    start = 0
    for group, end in enumerate(offs.tolist()):
        rows = slice(start, end)
        if self.dim() == mat2.dim():
            a, b, target = self[:, rows], mat2[rows], out[group]
        elif self.dim() == 2:
            a, b, target = self[rows], mat2[group], out[rows]
        else:
            a, b, target = self[group], mat2[:, rows], out[:, rows]
        torch.mm(a, b, out=target)
        start = end
    return out


def _output(a: Any, b: Any, offs: Any, dtype: torch.dtype) -> Any:
    """Returns a new tensor whose rows start at multiples of 16 bytes."""
    groups = {(2, 2): [len(offs) if offs is not None else 0], (3, 3): [a.shape[0]]}
    shape = [*groups.get((a.dim(), b.dim()), []), a.shape[-2], b.shape[-1]]
    step = _ALIGNMENT // dtype.itemsize
    row = -(-shape[-1] // step) * step
    stride = [shape[-2] * row, row, 1][-len(shape) :]
    return a.new_empty_strided(shape, stride, dtype=dtype)


#: The functions by operator.
COMPOSED: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {
        _aten.multinomial.default: _multinomial,
        _aten.normal.Tensor_Tensor: _normal,
        _aten.normal.float_Tensor: _normal_around_number,
        _aten.isin.Tensor_Tensor: _is_in,
        _aten.index.Tensor: _index,
        _aten.index_put.default: _index_put,
        _aten.index_put_.default: _index_put_,
        _aten._index_put_impl_.default: _index_put_impl_,
        _aten._grouped_mm.default: _grouped_mm,
        _aten.where.self: _where,
    }
)

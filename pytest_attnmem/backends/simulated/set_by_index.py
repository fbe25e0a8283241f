"""Elements that a program sets by index tensors, as PyTorch does from 2.15 on.

It fills them with a number; before, it put a tensor of the number, which the device held for as
long. It keeps an index of one place on the device; before, it read the place. The C++ code, which
sees no tensor of CUDA in a fake, does neither. Source: ``set_item`` in
aten/src/ATen/TensorIndexing.h.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from operator import index as as_int
from typing import Any, Final

import torch

from ...torch_releases import minor_version
from .dtypes.names import FLOAT8, UNSIGNED
from .index_tensors import MASKS
from .transforms import unwrapped

#: True if PyTorch fills elements with a number, instead of copying a tensor of it.
FILLS: Final = minor_version(torch.__version__) >= (2, 15)
_PLACES: Final = (torch.int64, torch.int32)


class Target:
    """A tensor, and the index by which a program sets elements of it."""

    def __init__(self, tensor: Any, index: Any, tensor_of: Callable[[bool], torch.Tensor]) -> None:
        """Finds the index tensors; a mask that is one value is indexed by ``tensor_of`` it."""
        self._tensor, self._tensor_of = tensor, tensor_of
        self._parts = [*index] if type(index) in (tuple, list) else [index]
        ellipses = sum(part is ... for part in self._parts)
        simple = isinstance(index, bool) or ellipses > 1
        self._is_known = FILLS and not simple and all(map(_is_known, self._parts))
        known = self._parts if self._is_known else ()
        self._tensors = [part for part in known if self._is_tensor(part)]

    def fill(self, number: Any) -> bool:
        """Sets the elements to a number; returns False where C++ code sets them as on CUDA."""
        if not self._is_known or len(self._tensors) != 1:
            return False
        found = self._tensors[0]
        one = _is_flag(found)
        masks = not one and found.dtype in MASKS
        if not (one or self._is_on_device(found)) or not (masks or self._takes(found)):
            return False
        kept, indices = self._sliced()
        dim = len(indices) - 1
        found = indices[dim]
        if not masks:
            kept.index_fill_(dim, found.view(-1) if found.dim() > 1 else found, number)
        elif found.shape == kept.shape[dim : dim + found.dim()]:
            for _ in range(kept.dim() - dim - found.dim()):
                found = found.unsqueeze(-1)
            kept.masked_fill_(found, number)
        else:
            return False
        return True

    def put(self, value: Any, *, of_number: bool = False) -> bool:
        """Puts a tensor of one value at a place that the device reads; returns False elsewhere."""
        if not self._is_known or not any(map(self._is_kept, self._parts)):
            return False
        if not (of_number or self._is_like(value)):
            return False
        kept, indices = self._sliced()
        torch.ops.aten.index_put_.default(kept, indices, value)
        return True

    def _is_tensor(self, part: Any) -> bool:
        """Returns True for a part by which the elements are indexed, and no place is selected."""
        if not isinstance(part, torch.Tensor):
            return isinstance(part, bool)
        if part.dim() or part.dtype is torch.bool:
            return True
        return torch._C._functorch.is_batchedtensor(part) or self._is_kept(part)

    def _is_kept(self, part: Any) -> bool:
        """Returns True for one place that is on the device: ``canKeepScalarIndexOnDevice``."""
        if not isinstance(part, torch.Tensor) or part.dim() or part.dtype not in _PLACES:
            return False
        plain = unwrapped(part) is part and unwrapped(self._tensor) is self._tensor
        if not plain or not self._is_on_device(part) or self._tensor.dtype in UNSIGNED:
            return False
        return not _share(part, self._tensor)

    def _is_like(self, value: Any) -> bool:
        """Returns True for a value by which a place is not read: ``allowsScalarIndexOnDevice``."""
        if value.dim() or unwrapped(value) is not value or value.dtype != self._tensor.dtype:
            return False
        return self._is_on_device(value) and not _share(value, self._tensor)

    def _is_on_device(self, index: Any) -> bool:
        """Returns True for an index of the target's device, which a transform hides from C++."""
        return bool(unwrapped(index).device == unwrapped(self._tensor).device)

    def _takes(self, index: Any) -> bool:
        """Returns True for an index tensor that ``index_fill_`` takes."""
        if self._tensor.dtype in FLOAT8:
            return False
        if _is_flag(index):
            return True
        return index.dtype is torch.int64 and (index.dim() < 2 or bool(index.is_contiguous()))

    def _sliced(self) -> tuple[Any, list[Any]]:
        """Returns the part of the target that is indexed by tensors, and an index by dimension.

        That is the target itself, not a view, if the other parts keep it whole.
        """
        parts: list[Any] = []
        places: list[tuple[int, Any]] = []
        for part in self._parts:
            if not self._is_tensor(part):
                parts.append(part)
                continue
            one = _is_flag(part)
            places.append((len(parts), self._tensor_of(bool(part)) if one else part))
            mask = not one and part.dtype in MASKS
            parts += [None if one else slice(None)] * (part.dim() if mask else 1)
        absent = self._tensor.dim() - sum(part is not None and part is not ... for part in parts)
        if ... in parts:
            at = parts.index(...)
            parts[at : at + 1] = [slice(None)] * absent
            places = [(place + (absent - 1) * (at < place), found) for place, found in places]
        whole = absent >= 0 and all(map(_is_whole, parts, self._tensor.shape))
        kept = self._tensor if whole else self._tensor[tuple(parts)]
        indices: list[Any] = []
        for place, found in places:
            dims = sum(part is None or isinstance(part, slice) for part in parts[:place])
            masked = sum(each.dim() - 1 for each in indices if _is_mask(each))
            indices += [None] * (dims - len(indices) - masked)
            indices.append(found)
        return kept, indices


def _share(first: Any, second: Any) -> bool:
    return bool(first.untyped_storage()._cdata == second.untyped_storage()._cdata)


def _is_flag(part: Any) -> bool:
    """Returns True for a mask that is one value."""
    return isinstance(part, bool) or (not part.dim() and part.dtype is torch.bool)


def _is_mask(index: Any) -> bool:
    return index is not None and index.dtype in MASKS


def _is_known(part: Any) -> bool:
    """Returns True for a part that C++ code does not make a tensor of."""
    if isinstance(part, torch.Tensor):
        return bool(part.dim()) or part.dtype is not torch.uint8
    return part is None or part is ... or isinstance(part, (Integral, slice))


def _is_whole(part: Any, size: int) -> bool:
    """Returns True for a slice of all places, which makes no view."""
    if not isinstance(part, slice):
        return False
    start, stop, step = (
        None if bound is None else as_int(bound) for bound in (part.start, part.stop, part.step)
    )
    return start in (None, 0) and step in (None, 1) and (stop is None or stop >= size)

"""Reads and writes of elements, ``x[index]``, of tensors on the simulated device.

C++ code makes a tensor of each sequence in an index, on the device of ``x``. That is ``meta`` for a
simulated tensor, where values are lost, so the tensors are made here. Source:
torch/csrc/autograd/python_variable_indexing.cpp, and ``indexing_tensor_from_data`` of
torch/csrc/utils/tensor_new.cpp.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, Final

import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_map_only

from .call_arguments import is_plain
from .fake_tensor import CPU, IMPLICIT_CUDA, META, SimulatedTensor
from .index_tensors import MASKS
from .number_checks import check_number
from .set_by_index import FILLS, Target
from .transforms import unwrapped

_ON_META: Final = "torch.meta."
#: A list of so many elements is never a tuple of indices.
_MOST: Final = 32


class Elements:
    """Reads and sets elements; ``make`` runs a factory with the device that is given."""

    def __init__(self, make: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]) -> None:
        self._make = make
        self._get, self._set = torch.Tensor.__getitem__, torch.Tensor.__setitem__
        self.functions: dict[Any, Callable[..., Any]] = {self._get: self.get, self._set: self.set}
        """The methods of this class by the functions of PyTorch in whose place they are."""

    def get(self, tensor: Any, index: Any) -> Any:
        """Returns ``tensor[index]``."""
        if not is_plain(index) and (device := _device_of(tensor)) is not None:
            index = self._with_tensors(tensor, index, device)
        return self._get(tensor, index)

    def set(self, tensor: Any, index: Any, value: Any) -> None:
        """Sets ``tensor[index]``; a number becomes a tensor of the host, as in C++ code."""
        device = _device_of(tensor)
        if device is not None and not is_plain(index):
            index = self._with_tensors(tensor, index, device)
        if device is IMPLICIT_CUDA:
            target = Target(tensor, index, self._flag)
            if isinstance(value, torch.Tensor):
                if target.put(value):
                    return
            elif isinstance(value, (Integral, float, complex)):
                if target.fill(value):
                    return
                if FILLS or not tensor.dtype.is_floating_point:  # a tensor rounds to infinity
                    check_number(value, tensor.dtype)
                value = self._make(torch.tensor, (value,), {"dtype": tensor.dtype, "device": CPU})
                if target.put(value, of_number=True):
                    return
        try:
            self._set(tensor, index, value)
        except TypeError as error:  # C++ code has seen the type of a tensor on ``meta``
            if device is None or _ON_META not in str(error):
                raise
            seen = "torch.cuda." if device is IMPLICIT_CUDA else "torch."
            raise TypeError(str(error).replace(_ON_META, seen)) from None

    def _with_tensors(self, tensor: Any, index: Any, device: torch.device) -> Any:
        """Returns the index with a tensor in the place of each sequence that becomes one."""
        if not isinstance(index, tuple) and not (_is_sequence(index) and _is_tuple(index)):
            return self._part(index, device)
        if _dimensions(index) > tensor.dim():
            return index  # C++ code has the error, before it makes tensors
        # A tuple of indices that is a list stays a list: C++ code warns of it.
        kind = list if isinstance(index, list) else tuple
        return kind([self._part(part, device) for part in index])

    def _part(self, part: Any, device: torch.device) -> Any:
        if not _is_sequence(part):
            return part
        try:
            with torch._C.DisableTorchFunction(), torch._C._DisableFuncTorch(), no_dispatch():
                numbers = tree_map_only(torch.Tensor, _zero_like, part)
                dtype = torch.tensor(numbers, device=META).dtype
        except (TypeError, ValueError, RuntimeError):
            return part  # C++ code has the error
        dtype = dtype if dtype in MASKS else torch.int64
        return self._make(torch.tensor, (part,), {"dtype": dtype, "device": device})

    def _flag(self, flag: bool) -> Any:
        """Returns the index tensor of a mask that is one value: of the only element, or of none."""
        kind = {"dtype": torch.int64, "device": IMPLICIT_CUDA}
        return self._make(torch.zeros if flag else torch.empty, (int(flag),), kind)


def _zero_like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.zeros((), dtype=tensor.dtype, device=CPU)


def _device_of(tensor: Any) -> torch.device | None:
    """Returns the device for the index tensors of a tensor; None if it is not simulated."""
    inner = unwrapped(tensor)
    if type(inner) is not SimulatedTensor:
        return None
    return IMPLICIT_CUDA if inner._fake_device.type == "cuda" else CPU


def _is_sequence(part: Any) -> bool:
    """Returns True for a list, a range, an array of NumPy and others; False for text."""
    return _is_array(part) or (isinstance(part, Sequence) and not isinstance(part, (str, bytes)))


def _is_array(part: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(part) is numpy.ndarray and part.ndim > 0


def _dimensions(index: Sequence[Any]) -> int:
    """Returns the dimensions that the parts of an index take (``count_specified_dimensions``)."""
    return sum(
        (part.dim() if part.dtype in MASKS else 1)
        if isinstance(part, torch.Tensor)
        else not (part is None or part is ... or isinstance(part, bool))
        for part in index
    )


def _is_tuple(index: Sequence[Any]) -> bool:
    """Returns True for a sequence that counts as a tuple of indices (``treatSequenceAsTuple``)."""
    if _is_array(index) or len(index) >= _MOST:
        return False
    return any(
        part is None or part is ... or isinstance(part, (torch.Tensor, slice)) or _is_sequence(part)
        for part in index
    )

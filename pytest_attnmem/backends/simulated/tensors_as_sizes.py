"""Functions whose C++ code reads a tensor as sizes, from its memory; here they get the numbers.

Sources, in aten/src/ATen/native: TensorShape.cpp (``tensor_split``) and LossCTC.cpp (``ctc_loss``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch._C._functorch import is_batchedtensor
from torch.utils._mode_utils import no_dispatch

from .fake_tensor import SimulatedTensor
from .transforms import unwrapped

#: The arguments that are sizes, by name and position.
_OF_SPLIT: Final = MappingProxyType({"tensor_indices_or_sections": 1})
_OF_CTC: Final = MappingProxyType({"input_lengths": 2, "target_lengths": 3})
_SIZES: Final = MappingProxyType(
    {
        **dict.fromkeys((torch.tensor_split, torch.Tensor.tensor_split), _OF_SPLIT),
        **dict.fromkeys((torch.ctc_loss, F.ctc_loss), _OF_CTC),
    }
)


def reading_sizes(mark_unknown: Callable[[str], None]) -> Mapping[Any, Callable[..., Any]]:
    """Returns these functions, by what they replace."""
    return {
        function: partial(_run, mark_unknown, function, sizes) for function, sizes in _SIZES.items()
    }


def _run(
    mark_unknown: Callable[[str], None],
    function: Any,
    sizes: Mapping[str, int],
    *args: Any,
    **kwargs: Any,
) -> Any:
    passed = [*args]
    if sizes is _OF_CTC and sum(map(_is_int32, (*passed, *kwargs.values()))) > 1:
        mark_unknown("aten.ctc_loss.Tensor of int32 by cuDNN")
    for name, place in sizes.items():
        if place < len(passed):
            passed[place] = _numbers(name, passed[place])
        elif name in kwargs:
            kwargs[name] = _numbers(name, kwargs[name])
    return function(*passed, **kwargs)


def _is_int32(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype is torch.int32


def _numbers(name: str, sizes: Any) -> Any:
    """Returns the numbers in a tensor; another argument is returned as it is.

    Raises:
        RuntimeError: ``tensor_split`` got a tensor of the device.
    """
    if not isinstance(sizes, torch.Tensor) or is_batchedtensor(sizes):
        return sizes
    sizes = unwrapped(sizes)
    if type(sizes) is not SimulatedTensor:  # outside windows
        with no_dispatch():
            return sizes.tolist() if name in _OF_SPLIT else sizes.view(-1).tolist()
    if name in _OF_SPLIT and sizes.is_cuda:
        raise RuntimeError(f"tensor_split expected {name} to be on cpu, but it's on {sizes.device}")
    if name in _OF_SPLIT or sizes.dim() == 1:  # a view would be wrapped again
        return sizes.tolist()
    return sizes.view(-1).tolist()

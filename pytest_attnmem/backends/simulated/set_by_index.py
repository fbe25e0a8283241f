"""Elements that a program sets to a number by one index tensor, as PyTorch does from 2.15 on.

It fills them (torch/csrc/autograd/python_variable_indexing.cpp); before, it put a tensor of the
number, which the device held for as long. The C++ code sees no tensor of CUDA in a fake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from ...torch_releases import minor_version

#: True if PyTorch fills elements with a number, instead of copying a tensor of it.
FILLS: Final = minor_version(torch.__version__) >= (2, 15)


def fill(tensor: Any, index: Any, number: Any, tensor_of: Callable[[bool], torch.Tensor]) -> bool:
    """Fills the elements at an index tensor, perhaps among slices and numbers; returns False else.

    A mask is not one, nor is a tensor of the host or an index that numbers a single place. A mask
    that is one value adds a dimension and indexes it by ``tensor_of`` the value.
    """
    given = tuple(index) if type(index) in (tuple, list) else (index,)
    if not FILLS or isinstance(index, bool):
        return False
    places = [place for place, each in enumerate(given) if isinstance(each, (torch.Tensor, bool))]
    if len(places) != 1:
        return False
    place, found = places[0], given[places[0]]
    before, behind = given[:place], given[place + 1 :]
    if not all(each in (None, ...) or type(each) in (int, slice) for each in before + behind):
        return False
    part: Any = slice(None)
    if isinstance(found, bool) or (not found.dim() and found.dtype is torch.bool):
        part, found = None, tensor_of(bool(found))
    elif not found.dim() or found.dtype is not torch.int64 or found.device != tensor.device:
        return False
    every = (*before, part, *behind)
    kept = tensor[every]
    dim = kept.dim() - 1 - _kept(behind) if ... in before else _kept(before)
    kept.index_fill_(dim, found.reshape(-1), number)
    return True


def _kept(index: tuple[Any, ...]) -> int:
    """Returns the number of dimensions that a part of an index keeps or adds."""
    return sum(each is None or type(each) is slice for each in index)

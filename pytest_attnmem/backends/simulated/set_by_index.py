"""Elements that a program sets to a number by one index tensor, as PyTorch does from 2.15 on.

It fills them (torch/csrc/autograd/python_variable_indexing.cpp); before, it put a tensor of the
number, which the device held for as long. The C++ code sees no tensor of CUDA in a fake.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from ...torch_releases import minor_version

_FILLS: Final = minor_version(torch.__version__) >= (2, 15)


def fill(tensor: Any, index: Any, number: complex) -> bool:
    """Fills the elements at an index tensor, perhaps among slices and numbers; returns False else.

    A mask is not one, nor is a tensor of the host or an index that numbers a single place.
    """
    given = index if type(index) is tuple else (index,)
    tensors = [each for each in given if isinstance(each, torch.Tensor)]
    if not _FILLS or len(tensors) != 1 or tensors[0].dtype is not torch.int64:
        return False
    if tensors[0].device != tensor.device:
        return False
    place = next(place for place, each in enumerate(given) if each is tensors[0])
    before, behind = given[:place], given[place + 1 :]
    plain = all(each in (None, ...) or type(each) in (int, slice) for each in before + behind)
    if not plain or not tensors[0].dim():
        return False
    every = (*before, slice(None), *behind)
    part = tensor[every]
    dim = part.dim() - 1 - _kept(behind) if ... in before else _kept(before)
    part.index_fill_(dim, tensors[0].reshape(-1), number)
    return True


def _kept(index: tuple[Any, ...]) -> int:
    """Returns the number of dimensions that a part of an index keeps or adds."""
    return sum(each is None or type(each) is slice for each in index)

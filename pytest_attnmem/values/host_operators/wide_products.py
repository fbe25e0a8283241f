"""Products of half precision with a result of float32: ATen/native/cuda/Blas.cpp."""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Final

import torch


def product(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``mm`` or ``bmm`` in the dtype ``out_dtype``."""
    return torch.matmul(call.self.float(), call.mat2.float()).to(call.out_dtype)


def added(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``beta * self + alpha * mat1 @ mat2`` in the dtype ``out_dtype``."""
    return _added(call, call.mat1, call.mat2)


def added_batches(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``beta * self + alpha * batch1 @ batch2`` in the dtype ``out_dtype``."""
    return _added(call, call.batch1, call.batch2)


def _added(call: SimpleNamespace, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = call.alpha * torch.matmul(left.float(), right.float())
    if call.beta != 0:  # with 0, not even NaN of self is seen
        found = found + call.beta * call.self.float()
    return found.to(call.out_dtype)


OPERATORS: Final = MappingProxyType(
    {
        "aten.mm.dtype": product,
        "aten.bmm.dtype": product,
        "aten.addmm.dtype": added,
        "aten.baddbmm.dtype": added_batches,
    }
)

"""Products of half precision with a result of float32, and of 8-bit numbers with scales.

Sources: ATen/native/cuda/{Blas,ScaledBlas}.cpp. A scale holds for the whole matrix, or for each row
of the left one and each column of the right.
"""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Final

import torch

from ...errors import CannotCompute


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


def scaled(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``(scale_a * self) @ (scale_b * mat2) + bias``, [M, N]."""
    rows, columns = call.self.shape[0], call.mat2.shape[1]
    left = call.self.float() * _fitting(call.scale_a, (rows, 1), "scale_a")
    right = call.mat2.float() * _fitting(call.scale_b, (1, columns), "scale_b")
    found: torch.Tensor = left @ right
    if call.bias is not None:
        found = found + call.bias.float()
    if call.scale_result is not None and call.out_dtype in (
        torch.float8_e4m3fn,
        torch.float8_e5m2,
    ):
        found = found * call.scale_result
    return found.to(call.out_dtype or call.self.dtype)


def _fitting(scale: torch.Tensor, each: tuple[int, int], name: str) -> torch.Tensor:
    if scale.dtype == torch.float32 and (scale.numel() == 1 or tuple(scale.shape) == each):
        return scale.reshape(1, 1) if scale.numel() == 1 else scale
    shape = f"{scale.dtype}{list(scale.shape)}".removeprefix("torch.")
    raise CannotCompute(f"{name} is {shape}; scales of blocks have no equivalent")


OPERATORS: Final = MappingProxyType(
    {
        "aten.mm.dtype": product,
        "aten.bmm.dtype": product,
        "aten.addmm.dtype": added,
        "aten.baddbmm.dtype": added_batches,
        "aten._scaled_mm.default": scaled,
    }
)

"""Tangents of constants: PyTorch makes them without memory, and keeps them so where it can.

C++ code finds the size and dtype of a result by a move to ``meta``, where it sees the simulated
tensors already. So these operators are replaced where an operand is such a tensor. Sources:
aten/src/ATen/native/BinaryOps.cpp and native/cuda/Blas.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, nan
from types import MappingProxyType
from typing import Any, Final

import torch
from torch.utils._mode_utils import no_dispatch

_aten = torch.ops.aten
#: The dtypes of tensors that C++ code makes of numbers.
_OF_NUMBERS: Final[Mapping[type, torch.dtype]] = MappingProxyType(
    {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
)
#: A dtype of the same kind that holds less, for each dtype of a number.
_NARROW: Final[Mapping[torch.dtype, torch.dtype]] = MappingProxyType(
    {
        torch.int64: torch.int8,
        torch.float64: torch.float16,
        torch.complex128: torch.complex64,
    }
)


def _is_zero(operand: Any) -> bool:
    return isinstance(operand, torch.Tensor) and operand._is_zerotensor()


def _on_meta(operand: Any) -> Any:
    """Returns an operand as C++ code moves it to ``meta``: a number becomes a tensor.

    A zero becomes a tensor of one element for the move, unless it is the tangent of a number.
    """
    if _is_zero(operand):
        if _is_of_number(operand):
            return operand
        _aten.zeros((), dtype=operand.dtype, device=operand.device)
    is_tensor = isinstance(operand, torch.Tensor)
    shape = operand.shape if is_tensor else ()
    dtype = operand.dtype if is_tensor else _OF_NUMBERS[type(operand)]
    with no_dispatch():
        return torch.empty(shape, dtype=dtype, device="meta")


def _is_of_number(zero: Any) -> bool:
    """Returns True if other dtypes prevail over that of the zero, as over that of a number."""
    narrow = _NARROW.get(zero.dtype)
    if zero.dim() or narrow is None:
        return False
    with no_dispatch():
        other = torch.empty((), dtype=narrow, device="meta")
        return torch.result_type(zero, other) is narrow


class _Result:
    """The result of an operator on two operands, as its kernel for ``meta`` describes it."""

    def __init__(self, first: Any, second: Any, quotient: bool = False) -> None:
        tensors = [one for one in (first, second) if isinstance(one, torch.Tensor)]
        self.shape = torch.broadcast_shapes(*(one.shape for one in tensors))
        on_device = [one.device for one in tensors if one.device.type != "cpu"]
        self.device = on_device[0] if on_device else tensors[0].device
        with torch._C.DisableTorchFunction():
            operands = _on_meta(first), _on_meta(second)
            with no_dispatch():
                self.dtype = torch.result_type(*operands)
        if quotient and not (self.dtype.is_floating_point or self.dtype.is_complex):
            self.dtype = torch.get_default_dtype()

    def zero(self) -> Any:
        return _aten._efficientzerotensor(self.shape, dtype=self.dtype, device=self.device)

    def full(self, value: Any) -> Any:
        return _aten.full(self.shape, value, dtype=self.dtype, device=self.device)

    def copy(self, operand: Any) -> Any:
        if not isinstance(operand, torch.Tensor):
            return self.full(operand)
        return _aten._to_copy(
            operand.expand(self.shape), dtype=self.dtype, layout=torch.strided, device=self.device
        )


def _product(first: Any, second: Any) -> Any:
    return _Result(first, second).zero()


def _quotient(first: Any, second: Any) -> Any:
    result = _Result(first, second, quotient=True)
    if not _is_zero(second):
        return result.zero()
    return result.full(nan if _is_zero(first) else inf)


def _sum(first: Any, second: Any, *, alpha: Any = 1) -> Any:
    result = _Result(first, second)
    if not _is_zero(first):
        return result.copy(first)
    if _is_zero(second):
        return result.zero()
    copy = result.copy(second)
    return copy if alpha == 1 else copy.mul(alpha)


def _difference(first: Any, second: Any, *, alpha: Any = 1) -> Any:
    return _sum(first, second, alpha=-alpha)


def _cross(first: Any, second: Any, *, dim: int = -1) -> Any:
    return _Result(first, second).zero()


def _inner(first: Any, second: Any) -> Any:
    """Returns the product of two vectors, which is such a tensor if one of them is."""
    if not (_is_zero(first) or _is_zero(second)):
        return NotImplemented
    return _aten._efficientzerotensor((), dtype=first.dtype, device=first.device)


def _scaled(first: Any, number: Any) -> Any:
    return _product(first, number) if _is_zero(first) else NotImplemented


def _shifted(first: Any, number: Any, alpha: Any = 1) -> Any:
    return _sum(first, number, alpha=alpha) if _is_zero(first) else NotImplemented


#: The code by operator that runs if an operand is such a tensor.
OF_ZEROS: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {
        _aten.add.Tensor: _sum,
        _aten.sub.Tensor: _difference,
        _aten.mul.Tensor: _product,
        _aten.div.Tensor: _quotient,
        _aten.linalg_cross.default: _cross,
    }
)
#: Operators whose kernels ask for such tensors, as composites; NotImplemented: there is none.
ASKING: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {
        _aten.dot.default: _inner,
        _aten.vdot.default: _inner,
        _aten.mul.Scalar: _scaled,
        _aten.add.Scalar: _shifted,
    }
)

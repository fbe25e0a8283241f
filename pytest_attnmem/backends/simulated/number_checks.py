"""Checks that a number of a call fits the dtype that CUDA's kernel converts it to.

Source: ``overflows`` of c10/util/TypeCast.h, and ``Scalar::to`` in the kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import torch

from ...errors import first_line
from .overlaps import Check

_aten = torch.ops.aten
#: The names of C++ types in PyTorch's errors.
_CPP: Final = MappingProxyType(
    {
        torch.uint8: "uint8_t",
        torch.int8: "int8_t",
        torch.int16: "int16_t",
        torch.int32: "int",
        torch.int64: "int64_t",
        torch.float16: "c10::Half",
        torch.bfloat16: "c10::BFloat16",
        torch.float32: "float",
        torch.float64: "double",
        torch.float8_e4m3fn: "c10::Float8_e4m3fn",
        torch.float8_e5m2: "c10::Float8_e5m2",
        torch.float8_e4m3fnuz: "c10::Float8_e4m3fnuz",
        torch.float8_e5m2fnuz: "c10::Float8_e5m2fnuz",
    }
)
_WITH_INFINITY: Final = frozenset(
    {torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e5m2}
)


def check_of_numbers(func: Any) -> Check | None:
    """Returns the check of an operator's number, or None; it raises PyTorch's error.

    A kernel that makes its result allocated it before it fails, so the memory is unknown then.
    """
    check = _CHECKS.get(func)
    return check if check is None or func._schema.is_mutable else partial(_told, str(func), check)


def _told(
    name: str,
    check: Check,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    refused: Callable[[str], Exception],
) -> None:
    try:
        check(args, kwargs, refused)
    except RuntimeError as error:
        refused(f"{name} fails on CUDA: {first_line(error)}")
        raise


def check_number(number: Any, dtype: torch.dtype) -> None:
    """Checks that PyTorch can convert a number to a dtype; other objects pass.

    Raises:
        RuntimeError: it cannot; the text is PyTorch's.
    """
    name = _CPP.get(dtype)
    if name is None or not isinstance(number, (bool, int, float, complex)):
        return
    if _overflows(number, dtype):
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")


def _overflows(number: complex, dtype: torch.dtype) -> bool:
    if isinstance(number, complex):
        return bool(number.imag) or _overflows(number.real, dtype)
    if dtype.is_floating_point:
        if math.isnan(number):
            return False
        limits = torch.finfo(dtype)
        if isinstance(number, float) and math.isinf(number) and dtype in _WITH_INFINITY:
            return False
        return not limits.min <= number <= limits.max
    ends = torch.iinfo(dtype)
    if isinstance(number, int) and ends.min == 0 and number < 0:
        return -number > ends.max  # a negative integer may stand for the bits of an unsigned one
    return math.isnan(number) or not ends.min <= number <= ends.max


def _to_first(at: int, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], _: Any) -> None:
    """Checks the argument at a place against the dtype of the first argument, a tensor."""
    check_number(args[at] if len(args) > at else kwargs.get(name), args[0].dtype)


def _full(args: tuple[Any, ...], kwargs: Mapping[str, Any], _: Any) -> None:
    if (dtype := kwargs.get("dtype")) is not None:
        check_number(args[1], dtype)


def _permutation(args: tuple[Any, ...], kwargs: Mapping[str, Any], _: Any) -> None:
    dtype = kwargs.get("dtype") or torch.int64
    if not dtype.is_floating_point:
        check_number(args[0], dtype)


def _full_like(args: tuple[Any, ...], kwargs: Mapping[str, Any], _: Any) -> None:
    check_number(args[1], kwargs.get("dtype") or args[0].dtype)


def _new_full(args: tuple[Any, ...], kwargs: Mapping[str, Any], _: Any) -> None:
    check_number(args[2], kwargs.get("dtype") or args[0].dtype)


def _power(args: tuple[Any, ...], _: Mapping[str, Any], __: Any) -> None:
    base, exponent = args[0], args[1]
    common = torch.result_type(base, exponent)
    if not (common.is_floating_point or common.is_complex) and exponent < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    if exponent not in (0, 1):  # these are filled and copied
        check_number(exponent, common)


def _list(args: tuple[Any, ...], _: Mapping[str, Any], __: Any) -> None:
    """Checks the number of a ``_foreach_`` operator of integers, if one kernel runs for all."""
    tensors, number = args[0], args[1]
    dtype = tensors[0].dtype
    if dtype.is_floating_point or dtype.is_complex or tensors[0].device.type == "cpu":
        return
    one_kernel = all(tensor.dtype == dtype for tensor in tensors)
    if one_kernel and torch.result_type(tensors[0], number) == dtype:
        check_number(number, dtype)


_CHECKS: Final[Mapping[Any, Check]] = MappingProxyType(
    {
        _aten.fill.Scalar: partial(_to_first, 1, "value"),
        _aten.fill_.Scalar: partial(_to_first, 1, "value"),
        _aten.fill_diagonal_.default: partial(_to_first, 1, "fill_value"),
        _aten.full.default: _full,
        _aten.randperm.default: _permutation,
        _aten.randperm.generator: _permutation,
        _aten.full_like.default: _full_like,
        _aten.new_full.default: _new_full,
        _aten.masked_fill.Scalar: partial(_to_first, 2, "value"),
        _aten.masked_fill_.Scalar: partial(_to_first, 2, "value"),
        _aten.scatter.value: partial(_to_first, 3, "value"),
        _aten.scatter_.value: partial(_to_first, 3, "value"),
        _aten.constant_pad_nd.default: partial(_to_first, 2, "value"),
        _aten.pow.Tensor_Scalar: _power,
        _aten.pow_.Scalar: _power,
        **{
            overload: _list
            for name in ("add", "sub", "mul")
            for overload in (
                getattr(_aten, f"_foreach_{name}").Scalar,
                getattr(_aten, f"_foreach_{name}_").Scalar,
            )
        },
    }
)

"""Checks of the dtypes of lists of tensors, which operators make one tensor after the other.

The texts are those of BinaryOps.cpp, LinearAlgebra.cpp and PointwiseOps.cpp of
aten/src/ATen/native.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import torch

from .names import NAMES

_aten = torch.ops.aten
_OF_LISTS: Final = "_foreach_tensor_norm_cuda"
_FAST: Final = (0, 1, 2, float("inf"))  # orders with a kernel for lists
_ONE_BOOL: Final = (
    "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to"
    " invert a mask, use the `~` or `logical_not()` operator instead."
)
_TWO_BOOLS: Final = (
    "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or"
    " `logical_xor()` operator instead."
)
_INTEGERS: Final = (
    "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will"
    " perform a true division of tensor1 and tensor2. The historic addcdiv behavior can be"
    " implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer"
    " inputs and as (input + value * tensor1 / tensor2) for float inputs. The future addcdiv"
    " behavior is just the latter implementation: (input + value * tensor1 / tensor2), for all"
    " dtypes."
)


def _sub(given: Sequence[Any], other: Any, *_: Any, **__: Any) -> str:
    others = other if isinstance(other, (list, tuple)) else [other] * len(given)
    for x, y in zip(given, others, strict=False):
        first, second = (_is_bool(value) for value in (x, y))
        if first and second and isinstance(y, torch.Tensor):
            return _TWO_BOOLS
        if first or second:
            return _ONE_BOOL
    return ""


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or getattr(value, "dtype", None) is torch.bool


def _norm(
    given: Sequence[Any], order: float = 2, dtype: torch.dtype | None = None, *_: Any, **__: Any
) -> str:
    single = "linalg.vector_norm"
    for x in given:
        if not (x.dtype.is_floating_point or x.dtype.is_complex):
            return (
                f"{single}: Expected a floating point or complex tensor as input. Got"
                f" {NAMES[x.dtype]}"
            )
        if dtype is not None and torch.promote_types(x.dtype, dtype) != dtype:
            return (
                f"{_OF_LISTS if order in _FAST else single}: the dtype of the input"
                f" ({NAMES[x.dtype]}) should be convertible without narrowing to the specified"
                f" dtype ({NAMES[dtype]})"
            )
        if order < 0 and not x.numel():
            return (
                f"{single} cannot compute the {order:g} norm on an empty tensor because the"
                " operation does not have an identity"
            )
    return ""


def _addcdiv(_: Any, numerators: Sequence[Any], denominators: Sequence[Any], *__: Any) -> str:
    pairs = zip(numerators, denominators, strict=False)
    integers = (not any(x.dtype.is_floating_point or x.dtype.is_complex for x in p) for p in pairs)
    return _INTEGERS if any(integers) else ""


_BY_PACKET: Final[Mapping[Any, Callable[..., str]]] = MappingProxyType(
    {
        _aten._foreach_sub: _sub,
        _aten._foreach_sub_: _sub,
        _aten._foreach_norm: _norm,
        _aten._foreach_addcdiv: _addcdiv,
        _aten._foreach_addcdiv_: _addcdiv,
    }
)
#: What makes the text of an error of a call, or "", by operator.
LIST_CHECKS: Final[Mapping[Any, Callable[..., str]]] = MappingProxyType(
    {
        getattr(packet, name): check
        for packet, check in _BY_PACKET.items()
        for name in packet.overloads()
    }
)

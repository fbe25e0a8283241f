"""Formulas of gradients that PyTorch's C++ code has two of: for plain tensors, and for subclasses.

A formula for plain tensors reads values and works in place, a formula for subclasses does not. So
the operators here have the formula for plain tensors in Python, where C++ code would take the
simulated tensors for a subclass. Each keeps the tensors alive that the C++ code keeps alive.
Sources: torch/csrc/autograd/FunctionsManual.cpp, aten/src/ATen/native/ReduceOps.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType
from typing import Any, Final

import torch

from .cross_entropy_formulas import CROSS_ENTROPIES
from .op_kinds import in_autograd
from .transforms import has_plain_formulas

_aten = torch.ops.aten


class _Prod(torch.autograd.Function):
    """``prod_backward`` of FunctionsManual.cpp, of all elements."""

    @staticmethod
    def forward(ctx: Any, input: Any, dtype: Any) -> Any:
        result = in_autograd(_aten.prod.default, input, dtype=dtype)
        ctx.save_for_backward(input, result)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        input, result = ctx.saved_tensors
        input = input.to(grad.dtype)
        if not input.dim():
            return grad, None
        is_zero = input == 0
        places = is_zero.nonzero()
        del is_zero
        if not places.numel():
            return _quotient(grad, input, result), None
        if places.shape[0] > 1 and not torch.is_grad_enabled():
            return torch.zeros_like(input, memory_format=torch.contiguous_format), None
        row = input.contiguous().view(-1)
        return _with_zeros(grad, row, 0).view_as(input), None


class _ProdOfDim(torch.autograd.Function):
    """``prod_backward`` of FunctionsManual.cpp, of a dimension."""

    @staticmethod
    def forward(ctx: Any, input: Any, dim: int, keepdim: bool, dtype: Any) -> Any:
        result = in_autograd(_aten.prod.dim_int, input, dim, keepdim, dtype=dtype)
        ctx.save_for_backward(input, result)
        ctx.dim, ctx.keepdim = dim, keepdim
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        input, result = ctx.saved_tensors
        input = input.to(grad.dtype)
        if not input.dim():
            return grad, None, None, None
        dim = ctx.dim % input.dim()
        if not ctx.keepdim:
            grad, result = grad.unsqueeze(dim), result.unsqueeze(dim)
        zeros = input == 0
        by_slice = zeros.sum(dim, True)
        if by_slice.sum().item() == 0:
            return _quotient(grad, input, result), None, None, None
        return _with_zeros(grad, input, dim), None, None, None


def _quotient(grad: Any, input: Any, result: Any) -> Any:
    quotient = result / input
    return grad * quotient


def _with_zeros(grad: Any, input: Any, dim: int) -> Any:
    """Returns what ``prod_safe_zeros_backward`` of FunctionsManual.cpp does."""
    length = input.shape[dim]
    if not prod(input.shape):
        return grad.expand_as(input)
    if length == 1:
        return grad
    ones = torch.ones_like(input.narrow(dim, 0, 1), memory_format=torch.contiguous_format)
    before = torch.cat([ones, input.narrow(dim, 0, length - 1)], dim)
    up_to = before.cumprod(dim)
    rest = input.narrow(dim, 1, length - 1).flip(dim)
    after = torch.cat([ones, rest], dim)
    del ones, rest  # which were moved into the list
    scanned = after.cumprod(dim)
    from_here = scanned.flip(dim)
    del scanned
    others = up_to * from_here
    return grad * others


def cumprod_backward(grad: Any, input: Any, dim: int, output: Any) -> Any:
    """Returns the gradient of ``cumprod`` of real numbers, by the values of its input.

    See ``cumprod_backward`` of ReduceOps.cpp, which names the tensors so.
    """
    if input.numel() <= 1:
        return grad
    dim %= input.dim()
    if input.shape[dim] == 1:
        return grad
    w = output * grad
    is_zero = input == 0
    if not is_zero.any().item():
        return _reversed_cumsum(w, dim).div(input)
    grad_input = torch.zeros(input.shape, dtype=grad.dtype, device=grad.device)
    cumsum = is_zero.cumsum(dim)
    mask = cumsum == 0
    before_zero = _before_zero(w, mask, input, dim)
    grad_input = torch.where(mask, before_zero, grad_input)
    mask = cumsum == 1
    first = mask.max(dim, True)[1]
    first_mask = torch.zeros_like(mask).scatter_(dim, first, 1).logical_and_(mask)
    mask &= ~first_mask
    scanned = _scan(input, mask, dim)
    kept = grad.masked_fill(cumsum != 1, 0.0)
    gathered = _gathered(output, first, dim)
    scanned.mul_(kept)
    total = scanned.sum(dim, True)
    del scanned
    total.mul_(gathered)
    return torch.where(first_mask, total, grad_input)


def _reversed_cumsum(w: Any, dim: int) -> Any:
    flipped = w.flip(dim)
    summed = flipped.cumsum(dim)
    return summed.flip(dim)


def _before_zero(w: Any, mask: Any, input: Any, dim: int) -> Any:
    others = ~mask
    filled = w.masked_fill(others, 0.0)
    return _reversed_cumsum(filled, dim).div_(input)


def _scan(input: Any, mask: Any, dim: int) -> Any:
    others = ~mask
    filled = input.masked_fill(others, 1.0)
    return filled.cumprod(dim)


def _gathered(output: Any, first: Any, dim: int) -> Any:
    before = (first - 1).relu_()
    gathered = torch.gather(output, dim, before)
    return gathered.masked_fill_(first == 0, 1.0)


class _MaskedFill(torch.autograd.Function):
    """``masked_fill_backward`` of FunctionsManual.cpp, of a value that is a tensor."""

    @staticmethod
    def forward(ctx: Any, input: Any, mask: Any, value: Any) -> Any:
        ctx.save_for_backward(mask)
        return in_autograd(_aten.masked_fill.Tensor, input, mask, value)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (mask,) = ctx.saved_tensors
        of_input = of_value = None
        if ctx.needs_input_grad[0]:
            of_input = grad.masked_fill(mask, 0)
        if ctx.needs_input_grad[2]:
            selected = grad.masked_select(mask)
            of_value = selected.sum()
        return of_input, None, of_value


def _prod(self: Any, *, dtype: Any = None) -> Any:
    if has_plain_formulas() and self.requires_grad and not self.is_complex():
        made: Any = _Prod
        return made.apply(self, dtype)
    return in_autograd(_aten.prod.default, self, dtype=dtype)


def _prod_of_dim(self: Any, dim: int, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if has_plain_formulas() and self.requires_grad and not self.is_complex():
        made: Any = _ProdOfDim
        return made.apply(self, dim, keepdim, dtype)
    return in_autograd(_aten.prod.dim_int, self, dim, keepdim, dtype=dtype)


def _masked_fill(self: Any, mask: Any, value: Any) -> Any:
    if has_plain_formulas() and value.requires_grad:
        made: Any = _MaskedFill
        return made.apply(self, mask, value)
    return in_autograd(_aten.masked_fill.Tensor, self, mask, value)


#: The operators whose code of autograd is replaced for tensors of the device.
WITH_FORMULAS: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {
        _aten.masked_fill.Tensor: _masked_fill,
        _aten.prod.default: _prod,
        _aten.prod.dim_int: _prod_of_dim,
        **CROSS_ENTROPIES,
    }
)

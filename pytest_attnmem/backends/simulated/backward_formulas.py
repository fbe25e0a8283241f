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

_aten = torch.ops.aten
_MEAN: Final = 1


def _in_cpp(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs PyTorch's own code of autograd."""
    return op._op_dk(torch._C.DispatchKey.Autograd, *args, **kwargs)


class _Prod(torch.autograd.Function):
    """``prod_backward`` of FunctionsManual.cpp, of all elements."""

    @staticmethod
    def forward(ctx: Any, input: Any, dtype: Any) -> Any:  # type: ignore[override]
        result = _in_cpp(_aten.prod.default, input, dtype=dtype)
        ctx.save_for_backward(input, result)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
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
    def forward(ctx: Any, input: Any, dim: int, keepdim: bool, dtype: Any) -> Any:  # type: ignore[override]
        result = _in_cpp(_aten.prod.dim_int, input, dim, keepdim, dtype=dtype)
        ctx.save_for_backward(input, result)
        ctx.dim, ctx.keepdim = dim, keepdim
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
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
    _fill_before_zero(grad_input, mask, w, input, dim)
    mask = cumsum == 1
    first = mask.max(dim, True)[1]
    first_mask = torch.zeros_like(mask).scatter_(dim, first, 1).logical_and_(mask)
    mask &= ~first_mask
    _fill_at_zero(grad_input, (mask, first_mask, first, cumsum), (grad, input, output), dim)
    return grad_input


def _reversed_cumsum(w: Any, dim: int) -> Any:
    flipped = w.flip(dim)
    summed = flipped.cumsum(dim)
    return summed.flip(dim)


def _fill_before_zero(grad_input: Any, mask: Any, w: Any, input: Any, dim: int) -> None:
    others = ~mask
    filled = w.masked_fill(others, 0.0)
    summed = _reversed_cumsum(filled, dim).div_(input)
    selected = summed.masked_select(mask)
    grad_input.masked_scatter_(mask, selected)


def _fill_at_zero(
    grad_input: Any,
    masks: tuple[Any, Any, Any, Any],
    tensors: tuple[Any, Any, Any],
    dim: int,
) -> None:
    mask, first_mask, first, cumsum = masks
    grad, input, output = tensors
    others = ~mask
    filled = input.masked_fill(others, 1.0)
    scanned = filled.cumprod(dim)
    apart = cumsum != 1
    kept = grad.masked_fill(apart, 0.0)
    total = scanned.mul_(kept).sum(dim, True)
    before = (first - 1).relu_()
    gathered = torch.gather(output, dim, before)
    at_start = first == 0
    total.mul_(gathered.masked_fill_(at_start, 1.0))
    selected = total.masked_select(first_mask)
    grad_input.masked_scatter_(first_mask, selected)


class _CrossEntropy(torch.autograd.Function):
    """``binary_cross_entropy_target_backward`` of FunctionsManual.cpp."""

    @staticmethod
    def forward(ctx: Any, input: Any, target: Any, weight: Any, reduction: int) -> Any:  # type: ignore[override]
        ctx.save_for_backward(input, target, weight)
        ctx.reduction = reduction
        return _in_cpp(_aten.binary_cross_entropy.default, input, target, weight, reduction)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
        input, target, weight = ctx.saved_tensors
        of_input = of_target = None
        if ctx.needs_input_grad[0]:
            of_input = _aten.binary_cross_entropy_backward(
                grad, input, target, weight, ctx.reduction
            )
        if ctx.needs_input_grad[1]:
            of_target = torch.logit(input).neg_().mul_(grad)
            _weigh(of_target, weight, ctx.reduction, target)
        return of_input, of_target, None, None


class _CrossEntropyOfLogits(torch.autograd.Function):
    """``binary_cross_entropy_with_logits_target_backward`` of FunctionsManual.cpp."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, input: Any, target: Any, weight: Any, positive: Any, reduction: int
    ) -> Any:
        ctx.save_for_backward(input, target, weight, positive)
        ctx.reduction = reduction
        op = _aten.binary_cross_entropy_with_logits.default
        return _in_cpp(op, input, target, weight, positive, reduction)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
        input, target, weight, positive = ctx.saved_tensors
        of_input = of_target = None
        if ctx.needs_input_grad[0]:
            of_input = _of_logits(grad, input, target, positive)
            _weigh(of_input, weight, ctx.reduction, input)
        if ctx.needs_input_grad[1]:
            of_target = _of_target(grad, input, positive)
            _weigh(of_target, weight, ctx.reduction, target)
        return of_input, of_target, None, None, None


def _of_logits(grad: Any, input: Any, target: Any, positive: Any) -> Any:
    if positive is None:
        return input.sigmoid().sub_(target).mul_(grad)
    times = positive.mul(target)
    more = times.add(1).sub_(target)
    curve = input.sigmoid()
    found = more.mul_(curve).sub_(times)
    del times, curve
    return found.mul_(grad)


def _of_target(grad: Any, input: Any, positive: Any) -> Any:
    if positive is None:
        negative = -input
        return negative * grad
    negative = -input
    found = torch.nn.functional.logsigmoid(negative)
    other = torch.nn.functional.logsigmoid(input).mul_(positive)
    return found.sub_(other).mul_(grad)


def _weigh(found: Any, weight: Any, reduction: int, like: Any) -> None:
    if weight is not None:
        found.mul_(weight)
    if reduction == _MEAN:
        found.div_(like.numel())


def _prod(self: Any, *, dtype: Any = None) -> Any:
    if torch.is_grad_enabled() and self.requires_grad and not self.is_complex():
        return _Prod.apply(self, dtype)
    return _in_cpp(_aten.prod.default, self, dtype=dtype)


def _prod_of_dim(self: Any, dim: int, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if torch.is_grad_enabled() and self.requires_grad and not self.is_complex():
        return _ProdOfDim.apply(self, dim, keepdim, dtype)
    return _in_cpp(_aten.prod.dim_int, self, dim, keepdim, dtype=dtype)


def _cross_entropy(self: Any, target: Any, weight: Any = None, reduction: int = _MEAN) -> Any:
    if torch.is_grad_enabled() and target.requires_grad:
        return _CrossEntropy.apply(self, target, weight, reduction)
    return _in_cpp(_aten.binary_cross_entropy.default, self, target, weight, reduction)


def _cross_entropy_of_logits(
    self: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = _MEAN
) -> Any:
    if torch.is_grad_enabled() and target.requires_grad:
        return _CrossEntropyOfLogits.apply(self, target, weight, pos_weight, reduction)
    op = _aten.binary_cross_entropy_with_logits.default
    return _in_cpp(op, self, target, weight, pos_weight, reduction)


#: The operators whose code of autograd is replaced for tensors of the device.
WITH_FORMULAS: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {
        _aten.prod.default: _prod,
        _aten.prod.dim_int: _prod_of_dim,
        _aten.binary_cross_entropy.default: _cross_entropy,
        _aten.binary_cross_entropy_with_logits.default: _cross_entropy_of_logits,
    }
)

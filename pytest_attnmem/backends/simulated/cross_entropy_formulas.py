"""Gradients of the targets of binary cross-entropies, as for plain tensors.

Source: torch/csrc/autograd/FunctionsManual.cpp; see ``backward_formulas.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch

from .op_kinds import in_autograd
from .transforms import has_plain_formulas

_aten = torch.ops.aten
_MEAN: Final = 1


class _CrossEntropy(torch.autograd.Function):
    """``binary_cross_entropy_target_backward`` of FunctionsManual.cpp."""

    @staticmethod
    def forward(ctx: Any, input: Any, target: Any, weight: Any, reduction: int) -> Any:
        ctx.save_for_backward(input, target, weight)
        ctx.reduction = reduction
        return in_autograd(_aten.binary_cross_entropy.default, input, target, weight, reduction)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
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
    def forward(
        ctx: Any, input: Any, target: Any, weight: Any, positive: Any, reduction: int
    ) -> Any:
        ctx.save_for_backward(input, target, weight, positive)
        ctx.reduction = reduction
        op = _aten.binary_cross_entropy_with_logits.default
        return in_autograd(op, input, target, weight, positive, reduction)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        input, target, weight, positive = ctx.saved_tensors
        of_input = of_target = None
        if ctx.needs_input_grad[0]:
            of_input = _of_logits(grad, input, target, positive, weight)
            _average(of_input, ctx.reduction, input)
        if ctx.needs_input_grad[1]:
            of_target = _of_target(grad, input, positive)
            _weigh(of_target, weight, ctx.reduction, target)
        return of_input, of_target, None, None, None


def _of_logits(grad: Any, input: Any, target: Any, positive: Any, weight: Any) -> Any:
    """Returns the weighted gradient of the logits: in place unless its own gradient is recorded."""
    if torch.is_grad_enabled():
        difference = _difference(input, target, positive)
        found = difference.mul(grad)
        del difference
        return found if weight is None else found.mul(weight)
    found = _difference_in_place(input, target, positive).mul_(grad)
    return found if weight is None else found.mul_(weight)


def _difference(input: Any, target: Any, positive: Any) -> Any:
    if positive is None:
        return input.sigmoid().sub(target)
    times = positive.mul(target)
    more = times.add(1)
    less = more.sub(target)
    curve = input.sigmoid()
    product = less.mul(curve)
    return product.sub(times)


def _difference_in_place(input: Any, target: Any, positive: Any) -> Any:
    if positive is None:
        return input.sigmoid().sub_(target)
    times = positive.mul(target)
    more = times.add(1).sub_(target)
    curve = input.sigmoid()
    return more.mul_(curve).sub_(times)


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
    _average(found, reduction, like)


def _average(found: Any, reduction: int, like: Any) -> None:
    if reduction == _MEAN:
        found.div_(like.numel())


def _cross_entropy(self: Any, target: Any, weight: Any = None, reduction: int = _MEAN) -> Any:
    if has_plain_formulas() and target.requires_grad:
        made: Any = _CrossEntropy
        return made.apply(self, target, weight, reduction)
    return in_autograd(_aten.binary_cross_entropy.default, self, target, weight, reduction)


def _cross_entropy_of_logits(
    self: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = _MEAN
) -> Any:
    weighted = pos_weight is not None and self.requires_grad
    if has_plain_formulas() and (target.requires_grad or weighted):
        made: Any = _CrossEntropyOfLogits
        return made.apply(self, target, weight, pos_weight, reduction)
    op = _aten.binary_cross_entropy_with_logits.default
    return in_autograd(op, self, target, weight, pos_weight, reduction)


#: The functions by operator.
CROSS_ENTROPIES: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {
        _aten.binary_cross_entropy.default: _cross_entropy,
        _aten.binary_cross_entropy_with_logits.default: _cross_entropy_of_logits,
    }
)

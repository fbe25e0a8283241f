"""The operators that autograd calls on plain tensors, in the place of those it calls on fakes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .fake_tensor import DEVICE, SimulatedTensor
from .formula_sums import FormulaSums
from .in_place_gradients import IF_UNSHARED, INDEX_PUT, ON_FRESH, is_dense, reference_counts
from .known_calls import KnownCalls
from .transforms import is_transformed

_ADD, _ADD_ = torch.ops.aten.add.Tensor, torch.ops.aten.add_.Tensor


class AutogradCalls:
    """Translates the calls of backward passes."""

    def __init__(self, known: KnownCalls) -> None:
        self._formula_sums = FormulaSums()
        self.of_transform = False
        """True in the backward pass of a transform."""
        self._known = known

    @property
    def is_warm(self) -> bool:
        """Returns True once a program has warmed this process up for the device."""
        return bool(self._known.unshared_counts)

    def warm_up(self) -> None:
        """Runs a small program once, so that later programs find imports and caches ready.

        It adds two gradients that only autograd holds. Their reference counts, in Python and in
        C++, become the counts of an unshared tensor.
        """
        with torch.inference_mode(False), torch.enable_grad():
            leaf = torch.empty(2, 2, device=DEVICE, requires_grad=True)
            ((leaf * 2).exp() + (leaf * 3).exp()).sum().backward()

    @contextmanager
    def backward_pass(self) -> Iterator[None]:
        """Runs a backward pass in its body; that of a transform works in place on no tensor.

        Autograd takes the tensors of ``torch.func`` for a subclass. Below them nothing tells it.
        """
        before, self.of_transform = self.of_transform, is_transformed()
        try:
            yield
        finally:
            self.of_transform = before

    def is_in_place(self, op: Any) -> bool:
        """Returns True if autograd now computes a formula that calls the operator in place."""
        node = torch._C._current_autograd_node()
        return node is not None and (node.name(), op) in ON_FRESH and not self.of_transform

    def note(self, out: Any) -> None:
        """Notes the result of an operator in a backward pass."""
        self._formula_sums.note(out)

    def on_plain_tensors(self, func: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Returns the operator that autograd calls on plain tensors, and its arguments.

        With ``create_graph=True`` it sums gradients, and changes shared ones, out of place.
        """
        differentiable = torch.is_grad_enabled()
        if func is _ADD and differentiable:
            return func, args
        if func is _ADD:
            formula = self._formula_sums.includes(args[0], args[-1])
            return (func, args) if formula else self._gradient_sum(args)
        if self.of_transform:
            return func, args
        node = torch._C._current_autograd_node()
        call = (node.name() if node is not None else "", func)
        instead = IF_UNSHARED.get(call)
        if instead is None:
            return ON_FRESH.get(call, func), args
        if func is INDEX_PUT:
            return instead, (*args, True)  # unsafe=True, as autograd passes it
        in_place = not differentiable and self._is_unshared(args)
        return (instead if in_place else func), args

    def _gradient_sum(self, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Returns the addition that autograd uses to sum two gradients: in place where it can.

        See ``accumulate`` in torch/csrc/autograd/input_buffer.cpp.
        """
        plain = len(args) == 2 and type(args[1]) is SimulatedTensor
        if plain and args[0].shape == args[1].shape:
            if not self._known.unshared_counts:
                self._known.unshared_counts = reference_counts(args)
            elif self._is_unshared(args) and is_dense(args[0]):
                return _ADD_, args
        return _ADD, args

    def _is_unshared(self, args: tuple[Any, ...]) -> bool:
        """Returns True if only autograd holds the first tensor and its storage."""
        limits = zip(reference_counts(args), self._known.unshared_counts, strict=True)
        return all(count <= limit for count, limit in limits)

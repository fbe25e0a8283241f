"""Gives views that a program wrote in place the gradients that they have on a device.

A write in place into a view, its base or another view of it gives the view another gradient. A
device makes it with ``as_strided``: it fills a tensor as large as the base. Autograd makes the view
of a subclass again, so its gradient takes the memory of ``view`` or ``select``: less, or more
(torch/csrc/autograd/variable.cpp).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import torch

from .fake_tensor import SimulatedTensor
from .program_errors import at

#: The references to the storage of a tensor without views, while Python looks at it.
_ALONE: Final = 2
#: Autograd calls it of a view while it makes the view's gradient, and holds the lock of the view: a
#: question for the gradient would never end.
_RESETS_HOOKS: Final[Any] = vars(torch._C.TensorBase)["_backward_hooks"].__set__


class WrittenViews:
    """The writes in place of one simulation, while gradients are recorded."""

    def __init__(self, explain: Callable[[str], None]) -> None:
        self.pending: set[int] = set()
        """The ids of the tensors into whose views the running call has written."""
        self.others = False
        """True if a tensor was written that may have other views than the call was given."""
        self._explain = explain

    def note(self, args: tuple[Any, ...]) -> None:
        """Notes an operator that writes into its first argument."""
        if not torch.is_grad_enabled():
            return
        for tensor in _tensors(args[:1]):
            is_view = tensor._is_view()
            if is_view:
                self.pending.add(id(tensor._base))
            references = torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)
            self.others = self.others or references > _ALONE + is_view

    def follow(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> None:
        """Gives the views among the arguments of a call, which wrote into them, their gradients."""
        if func == _RESETS_HOOKS:
            return
        pending, self.pending = self.pending, set()
        with torch._C.DisableTorchFunction():
            for view in _tensors((*args, *(kwargs or {}).values())):
                if view._is_view() and id(view._base) in pending and not _is_like_device(view):
                    self._renew(view)

    def renew(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> None:
        """Gives the views among the arguments, whose base was written, their gradients.

        Formulas of a backward pass get views as they were; autograd holds the lock of their graph.
        """
        if torch._C._current_graph_task_id() != -1 or func == _RESETS_HOOKS:
            return
        with torch._C.DisableTorchFunction():
            for view in _tensors((*args, *(kwargs or {}).values())):
                before = torch._C._autograd._get_sequence_nr()
                if not view._is_view() or _is_like_device(view):
                    continue
                if view.grad_fn._sequence_nr() >= before:  # made now: the view is older
                    self._renew(view)

    def _renew(self, view: Any) -> None:
        """Makes the tensor a view of its base by ``as_strided``."""
        if view.retains_grad or view._backward_hooks or view._use_count() != 1:
            self._explain(
                f"a view has a hook, or is in a graph{at()}, and was written in place, or its base"
                " was; make the view again after the write"
            )
            return
        new = view._base.as_strided(view.size(), view.stride(), view.storage_offset())
        torch._C._swap_tensor_impl(view, new)


def _is_like_device(view: Any) -> bool:
    """Returns True if the tensor has the gradient that it has on a device, or none."""
    return view.grad_fn is None or view.grad_fn.name() == "AsStridedBackward0"


def _tensors(args: Iterable[Any]) -> Iterator[Any]:
    for arg in args:
        if type(arg) is SimulatedTensor:
            yield arg
        elif isinstance(arg, (list, tuple)):
            yield from _tensors(arg)

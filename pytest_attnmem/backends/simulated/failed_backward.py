"""Frees what a failed backward pass leaves in the queue of autograd's engine.

The engine drops the steps that a failed pass left, with their gradients, when it takes them from
the queue of their device (torch/csrc/autograd/engine.cpp). The thread of a CUDA device does so at
once. A fake's device is the host, whose queue the calling thread empties: it stops at the error,
and the gradients would stay until later passes come to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.graph import _engine_run_backward


class LastStep:
    """A backward pass of one step that the engine takes after all others in its queue."""

    def __init__(self) -> None:
        with torch.inference_mode(False), torch.enable_grad():
            self._leaf = torch.ones((), device="cpu", requires_grad=True)
            self._copy = self._leaf.clone()  # its backward calls no operator, which modes would see
        self._gradient = torch.ones((), device="cpu")
        # The engine takes the step with the highest number first.
        self._copy.grad_fn._set_sequence_nr(0)  # type: ignore[union-attr]

    def empty_queue(self) -> None:
        """Has the calling thread take all steps from its queue."""
        outputs, gradients, inputs = (self._copy,), (self._gradient,), (self._leaf,)
        _engine_run_backward(outputs, gradients, True, False, inputs, True, accumulate_grad=False)


def emptying_queue(run_backward: Callable[..., Any]) -> Callable[..., Any]:
    """Returns ``run_backward`` so that a failed pass leaves no gradients in the queue.

    A pass inside another one leaves its steps to the outer one, which takes them first.
    """
    last = LastStep()

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return run_backward(*args, **kwargs)
        except BaseException:
            if torch._C._current_graph_task_id() == -1:
                last.empty_queue()
            raise

    return run

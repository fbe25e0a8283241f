"""Waiting for the thread of autograd's engine that runs a device's backward passes."""

from __future__ import annotations

from typing import Any

import torch


class _Nothing(torch.autograd.Function):
    """A step of a backward pass that computes and allocates nothing."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the tensor."""
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> None:
        """Returns no gradient."""
        return None


class Engine:
    """The thread of one device.

    ``backward`` returns when the last gradient is computed. A moment later the thread frees the
    tensors of its last step (``Engine::thread_main`` of torch/csrc/autograd/engine.cpp: the task
    is released after its graph is marked completed), so a level read at once may be too high.
    """

    def __init__(self, device: str) -> None:
        with torch.inference_mode(False), torch.enable_grad():
            leaf = torch.empty(0, device=device, requires_grad=True)  # of no bytes
            self._end: torch.Tensor = _Nothing.apply(leaf)  # type: ignore[no-untyped-call]
            self._gradient = torch.empty(0, device=device)

    def settle(self) -> None:
        """Waits until the thread has released all earlier steps: it takes steps one by one."""
        if torch._C._current_graph_task_id() == -1:  # not from inside a backward pass
            torch.autograd.backward(self._end, self._gradient, retain_graph=True)

"""Waiting for the thread of autograd's engine that runs a device's backward passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class _Step(torch.autograd.Function):
    """A step of a backward pass that allocates nothing, and calls a function."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, call: Callable[[], object]) -> torch.Tensor:
        """Returns the tensor."""
        ctx.call = call
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, None]:
        """Returns no gradient."""
        ctx.call()
        return None, None


class Engine:
    """The thread of one device.

    ``backward`` returns when the last gradient is computed. A moment later the thread frees the
    tensors of its last step (``Engine::thread_main`` of torch/csrc/autograd/engine.cpp: the task
    is released after its graph is marked completed), so a level read at once may be too high.
    """

    def __init__(self, device: str, on_thread: Callable[[], object] = lambda: None) -> None:
        """Each :meth:`settle` calls ``on_thread`` on the thread."""
        with torch.inference_mode(False), torch.enable_grad():
            self._leaf = torch.empty(0, device=device, requires_grad=True)  # of no bytes
            self._end: torch.Tensor = _Step.apply(self._leaf, on_thread)  # type: ignore[no-untyped-call]
            self._gradient = torch.empty(0, device=device)

    def settle(self) -> None:
        """Waits until the thread has released all earlier steps: it takes steps one by one."""
        if torch._C._current_graph_task_id() == -1:  # not from inside a backward pass
            engine: Any = torch.autograd.Variable._execution_engine
            # Without torch.autograd.backward, which transforms and batched gradients refuse.
            engine.run_backward(
                (self._end,),
                (self._gradient,),
                True,
                False,
                (self._leaf,),
                allow_unreachable=True,
                accumulate_grad=False,
            )

"""Gives each backward pass one order and one end, so that the null device repeats its numbers.

A pass ends when autograd's thread has freed its last step. On a device the program goes on a moment
earlier, so the next allocation may find that memory free or not: here it is free.

Autograd runs the node with the highest number first, and each thread numbers the nodes that it
makes. The nodes of a double backward come from two threads, so on a device their order, and with it
the peak, depends on all that each thread did before. Here the threads go on from one number.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch

from ...values.dispatcher import past_transforms
from ..autograd_engine import RUN_BACKWARD, in_backward, next_number
from ..cuda import Engine


class _Thread:
    """The thread of one device's backward passes."""

    def __init__(self, device: int) -> None:
        self._number = 0
        self._engine = Engine(f"cuda:{device}", self._go_on)

    def meet(self) -> None:
        """Waits until it is done; then it and the calling thread go on from one number."""
        self._go_on()
        self._engine.settle()  # it goes on
        self._go_on()

    def _go_on(self) -> None:
        """Makes nodes that nobody runs until the next one of this thread has the number."""
        for _ in range(next_number(), self._number):
            torch._C._functions.DelayedError("", 0)
        self._number = next_number()


def settle_each_pass() -> None:
    """Waits before and after each backward pass of this process, from now on.

    A second call does nothing.
    """
    run, threads = getattr(*RUN_BACKWARD), dict[int, _Thread]()
    if hasattr(run, "settles"):
        return

    def settle() -> None:
        if not torch.cuda.is_initialized() or in_backward():
            return
        device = torch.cuda.current_device()
        with past_transforms():  # of transforms, such as ``grad``
            if device not in threads:
                threads[device] = _Thread(device)
            threads[device].meet()

    @wraps(run)
    def settled(*args: Any, **kwargs: Any) -> Any:
        settle()
        try:
            return run(*args, **kwargs)
        finally:  # a failed pass too: its last step has tensors
            settle()

    settled.settles = True  # type: ignore[attr-defined]
    setattr(*RUN_BACKWARD, settled)

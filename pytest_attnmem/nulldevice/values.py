"""Tells a value that is read for a log from one that a size may be made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import observe

#: Both methods of ``torch.Tensor`` that give a number, as ``format`` and ``print`` of a loss do.
_GIVE_A_NUMBER = ("item", "__float__")


def forgive_floats() -> bool:
    """Count no read of a floating number, for the rest of the process: no size is made of one.

    False where that is so already.
    """
    if "item" in vars(torch.Tensor):  # where it comes from a base, and not from here
        return False
    for name in _GIVE_A_NUMBER:
        setattr(torch.Tensor, name, _forgiving(getattr(torch.Tensor, name)))
    return True


def _forgiving(read: Callable[..., Any]) -> Callable[..., Any]:
    def reading(tensor: torch.Tensor) -> Any:
        before = observe.device_reads()
        value = read(tensor)
        if tensor.is_floating_point():
            observe.forgive_reads(observe.device_reads() - before)
        return value

    reading.__name__ = read.__name__
    return reading

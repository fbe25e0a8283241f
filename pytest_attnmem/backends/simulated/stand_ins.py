"""Fakes that stand for tensors from outside, which the program has itself."""

from __future__ import annotations

import weakref
from typing import Any

from .fake_tensor import SimulatedTensor
from .program_attributes import STANDS_FOR


def stands_for(fake: Any, real: weakref.ref[Any]) -> None:
    """Notes that a program has ``real`` where the simulation has ``fake``."""
    fake.__dict__[STANDS_FOR] = real


def as_given(made: Any) -> Any:
    """Returns what a call returns to the program: the tensor that it gave, if that is the result.

    ``x.add_(1) is x``, and so is ``x.contiguous()`` where there is nothing to do.
    """
    if type(made) is SimulatedTensor and STANDS_FOR in made.__dict__:
        real = made.__dict__[STANDS_FOR]()
        return made if real is None else real
    return made

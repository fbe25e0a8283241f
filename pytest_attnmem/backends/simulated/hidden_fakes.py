"""The code that asks whether a tensor is fake: torch, which has to know, or the program.

Libraries take another branch for tensors without data, and no device ever takes that branch. So a
program gets the answer that a device would give, in whatever way it asks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch.utils import _python_dispatch

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_INSIDE = (os.path.dirname(torch.__file__), _PACKAGE)

#: Functions of torch that ask on behalf of their caller.
_FOR_OTHERS = frozenset(
    function.__code__
    for function in (
        *(fake_tensor.is_fake, fake_tensor.get_plain_tensors),
        torch._guards.detect_fake_mode,
    )
)

#: Functions that tell of dispatch modes, and their answers where no mode is on.
_OF_MODES = (
    (_python_dispatch, "_get_current_dispatch_mode", None),
    (_python_dispatch, "_get_current_dispatch_mode_stack", ()),
    (torch._C, "_get_dispatch_mode", None),
    (torch._C, "_len_torch_dispatch_stack", 0),
)


def asked_by_torch(known: dict[CodeType, bool]) -> bool:
    """Returns whether torch or this package asks the caller of this; ``known`` keeps answers."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code in _FOR_OTHERS:
        frame = frame.f_back
    code = frame.f_code
    found = known.get(code)
    if found is None:
        found = known[code] = code.co_filename.startswith(_INSIDE)
    return found


def without_modes(known: dict[CodeType, bool]) -> dict[tuple[Any, str], Any]:
    """Returns functions that tell torch of all modes and a program of none, by owner and name."""

    def told(original: Callable[..., Any], otherwise: Any) -> Callable[..., Any]:
        def tell(*args: Any, **kwargs: Any) -> Any:
            return original(*args, **kwargs) if asked_by_torch(known) else otherwise

        return tell

    return {
        (owner, name): told(getattr(owner, name), otherwise)
        for owner, name, otherwise in _OF_MODES
        if hasattr(owner, name)
    }

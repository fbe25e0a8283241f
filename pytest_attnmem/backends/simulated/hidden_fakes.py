"""Hides fake tensors from programs, but not from torch.

Libraries branch on fake tensors, and a device never takes that branch. So every check for fake
tensors or dispatch modes returns to a program the answer that a device would give; torch needs the
true one.
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

#: The code of functions of torch that check on behalf of their caller. Here and below, code is
#: known by its id, because its hash visits all its constants.
_ASKS_FOR_CALLER = frozenset(
    id(function.__code__)
    for function in (
        *(fake_tensor.is_fake, fake_tensor.get_plain_tensors),
        torch._guards.detect_fake_mode,
    )
)

#: Functions that report dispatch modes, and their results while no mode is active.
_MODE_QUERIES = (
    (_python_dispatch, "_get_current_dispatch_mode", None),
    (_python_dispatch, "_get_current_dispatch_mode_stack", ()),
    (torch._C, "_get_dispatch_mode", None),
    (torch._C, "_len_torch_dispatch_stack", 0),
)


def asked_by_torch(answers: dict[int, tuple[CodeType, bool]]) -> bool:
    """Returns True if torch or this package called the caller; ``answers`` caches the results."""
    frame: Any = sys._getframe(2)
    while frame is not None and id(frame.f_code) in _ASKS_FOR_CALLER:
        frame = frame.f_back
    code = frame.f_code
    answer = answers.get(id(code))
    if answer is None:
        answer = answers[id(code)] = code, code.co_filename.startswith(_INSIDE)
    return answer[1]


def without_modes(
    answers: dict[int, tuple[CodeType, bool]],
) -> dict[tuple[Any, str], Any]:
    """Returns functions that report modes to torch and none to programs, by owner and name."""

    def hidden(original: Callable[..., Any], otherwise: Any) -> Callable[..., Any]:
        def query(*args: Any, **kwargs: Any) -> Any:
            return original(*args, **kwargs) if asked_by_torch(answers) else otherwise

        return query

    return {
        (owner, name): hidden(getattr(owner, name), otherwise)
        for owner, name, otherwise in _MODE_QUERIES
        if hasattr(owner, name)
    }

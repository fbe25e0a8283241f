"""Processes that a program starts, such as the workers of a ``DataLoader``.

A process that is forked in a window would go on in it. It has no device, as with CUDA, so it leaves
the window: it makes tensors of the host, and the simulated tensors that it has are followed as in
fixtures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any

from torch.overrides import (
    TorchFunctionMode,
    _get_current_function_mode_stack,
    _pop_mode,
    _push_mode,
)


def in_children(leave: Callable[[], None]) -> dict[tuple[Any, str], Any]:
    """Returns the patch, by owner and name, that calls ``leave`` in a process that was forked."""
    original = BaseProcess._bootstrap  # type: ignore[attr-defined]

    def bootstrap(process: BaseProcess, *args: Any, **kwargs: Any) -> Any:
        leave()
        return original(process, *args, **kwargs)

    return {(BaseProcess, "_bootstrap"): bootstrap}


@contextmanager
def below_function_modes(mode: TorchFunctionMode) -> Iterator[None]:
    """Takes the modes for the body away that the program entered after ``mode``."""
    stack = _get_current_function_mode_stack()
    above = stack[stack.index(mode) + 1 :] if mode in stack else []
    for _ in above:
        _pop_mode()
    try:
        yield
    finally:
        for one in above:
            _push_mode(one)

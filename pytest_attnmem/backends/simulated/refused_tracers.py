"""Tracers of PyTorch that a program calls: a graph in the making keeps each tensor alive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.fx.experimental.proxy_tensor import _MakefxTracer

from ...errors import CannotSimulate
from .program_errors import at


def patches(refused: Callable[[str], CannotSimulate]) -> dict[tuple[Any, str], Any]:
    """Returns the patches that refuse them, by owner and name."""

    def refuse(name: str) -> Callable[..., NoReturn]:
        def call(*_: Any, **__: Any) -> NoReturn:
            raise refused(f"{name}{at()} cannot be simulated; use backend='null' or 'cuda'")

        return call

    return {
        (_MakefxTracer, "trace"): refuse("make_fx"),
        (torch.library, "opcheck"): refuse("torch.library.opcheck"),
    }

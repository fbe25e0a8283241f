"""Code that no simulation follows: compiled code runs eagerly and is noted, the rest is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch._dynamo import eval_frame  # now: an import in a window leaves frames with tensors

from ...errors import CannotSimulate
from . import (
    lazy_parameters,
    other_fake_modes,
    refused_subclasses,
    refused_tracers,
    traced_code,
    triton_driver,
)
from .placement import Placement
from .program_errors import ProgramErrors, at
from .scripting import Scripts, without_loads
from .transforms import untraceable


def refusals(refused: Callable[[str], CannotSimulate]) -> dict[tuple[Any, str], Any]:
    """Returns the patches that refuse in and outside windows, by owner and name."""

    def graph(*_: Any, **__: Any) -> NoReturn:
        raise refused(f"a CUDA graph{at()} cannot be simulated")

    return {
        (torch.cuda.CUDAGraph, "__new__"): graph,
        **triton_driver.patches(refused),
        **lazy_parameters.patches(refused),
        **other_fake_modes.patches(refused),
        **refused_subclasses.patches(refused),
    }


class Unsimulated:
    """The compilations of one window, and the refusals of one simulation."""

    def __init__(self, errors: ProgramErrors, placement: Placement) -> None:
        self._scripts = Scripts(errors, placement)
        self._refused = errors.record
        self._compiled = False

    def start(self) -> None:
        """Begins a window."""
        self._compiled = False

    def end(self, forget: bool) -> None:
        """Ends a program; ``forget`` if its tensors may be on another device in the next one."""
        self._scripts.end(forget)

    def problem(self) -> str | None:
        """Returns why the numbers may be wrong."""
        return "compiled code cannot be simulated" if self._compiled else None

    def patches(self) -> dict[tuple[Any, str], Any]:
        """Returns the patches that note compilations and refuse, by owner and name."""

        def compile(model: Any = None, **options: Any) -> Any:
            if not options.get("disable") and options.get("backend") != "eager":
                self._compiled = True
            return (lambda function: function) if model is None else model

        decide = eval_frame._callback_from_stance

        def eager(callback: Any) -> Any:
            if decide(callback) not in (None, False):
                self._compiled = True
            return None

        return {
            (torch, "compile"): compile,
            (eval_frame, "_callback_from_stance"): eager,
            **refusals(self._refused),
            **untraceable(self._refused),
            **traced_code.inside_windows(self._refused),
            **refused_tracers.patches(self._refused),
            **without_loads(self._refused),
            **self._scripts.patches(),
        }

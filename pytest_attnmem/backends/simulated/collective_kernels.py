"""The collectives of process groups on the device."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from .collectives import Collectives
from .pytorch_device.kernels import Run

if TYPE_CHECKING:
    from .operators import Operators


def collective_kernels(operators: Operators) -> Mapping[Any, Run]:
    """Returns the kernels by operator; what runs is the collectives of the current simulation.

    Those of ``_c10d_functional`` are C++ code that calls others, but for the one that waits.
    """
    known = Collectives(_unheard, operators.maker.is_here).replacements()
    return {
        op: partial(_run, operators, op)
        for op in known
        if op.namespace == "c10d" or "wait_tensor" in op.name()
    }


def _run(operators: Operators, op: Any, *args: Any, **kwargs: Any) -> Any:
    return operators.current.collectives[op](*args, **kwargs)


def _unheard(_: str) -> None:
    """Hears of no assumption: nothing runs."""

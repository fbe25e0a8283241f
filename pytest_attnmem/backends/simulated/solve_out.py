"""``linalg.solve`` with ``out=``: PyTorch's rule of sizes gives targets strides of its own.

CUDA's kernel solves in the targets, and takes less memory than what runs here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_aten = torch.ops.aten


def solve_into(
    explain: Callable[[str], None],
    A: Any,
    B: Any,
    *,
    left: bool = True,
    check_errors: bool = False,
    **targets: Any,
) -> tuple[Any, ...]:
    """Returns the targets with the solution, factors, pivots and numbers of errors in them."""
    found = _aten._linalg_solve_ex.default(A, B, left=left, check_errors=check_errors)
    explain("no model of aten._linalg_solve_ex.result; use backend='null' or 'cuda'")
    for made, target in zip(found, targets.values(), strict=True):
        if target.shape != made.shape:
            target.resize_(made.shape).as_strided_(made.shape, made.stride())
        target.copy_(made)
    return tuple(targets.values())

"""How often a program freed the workspaces of cuBLAS, which the next products then allocate again.

Compiled code does that before it records a CUDA graph (torch/_inductor/cudagraph_trees.py).
"""

from __future__ import annotations

from typing import Any

import torch

_CLEAR = "_cuda_clearCublasWorkspaces"


def times_cleared() -> int:
    """Returns the number of times since the first call, in this process."""
    library: Any = torch._C
    clear = getattr(library, _CLEAR, None)
    if clear is None:  # a build without CUDA
        return 0
    if not hasattr(clear, "times"):

        def counted() -> None:
            counted.times += 1  # type: ignore[attr-defined]
            clear()

        counted.times = 0  # type: ignore[attr-defined]
        setattr(library, _CLEAR, counted)
    return int(getattr(library, _CLEAR).times)

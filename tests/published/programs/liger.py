"""Peaks of one call, as the benchmarks of Liger-Kernel measure them."""

from __future__ import annotations

from typing import Any

import layers
import losses
import torch
from torch import cuda

BENCHMARKS = {**layers.BENCHMARKS, **losses.BENCHMARKS}


def peak(
    kernel: str, provider: str, mode: str, times: int = 4, measured: str = "", **sizes: Any
) -> dict[str, int]:
    """Returns the peak of one call, after others have left gradients and workspaces.

    ``measured`` is what a script calls whatever the mode says.
    """
    mode = measured or mode
    if "dtype" in sizes:
        sizes["dtype"] = getattr(torch, sizes["dtype"])
    forward, gradient = BENCHMARKS[kernel](provider, **sizes)
    if mode == "backward":
        output = forward()
        given = gradient(output) if callable(gradient) else gradient

    def full() -> None:
        output = forward()
        if isinstance(output, tuple):
            inputs, gradients = gradient
            if inputs is None:
                torch.autograd.backward(output, gradients)
            else:
                torch.autograd.grad(output, inputs, gradients, allow_unused=True, retain_graph=True)
        elif gradient == "loss":
            output.backward()
        elif gradient == "sum":
            output.sum().backward()
        else:
            now = gradient(output) if callable(gradient) else gradient
            output.backward(now, retain_graph=True)

    calls = {
        "forward": forward,
        "backward": lambda: output.backward(given, retain_graph=True),
        "full": full,
    }
    for _ in range(times):
        cuda.reset_peak_memory_stats()
        calls[mode]()
        found = cuda.max_memory_allocated()
    return {"peak": found}

"""The time of one case, where the backend computes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .case import Case, passes


def mean_times(case: Case, device: str, count: int, warmup: int) -> tuple[float, float | None]:
    """Milliseconds of a forward pass without gradients, and of a backward pass alone.

    Each is the mean of ``count`` passes after ``warmup``; the device is synchronised around each.
    """
    forward, ready = passes(case, device)
    forward_ms = _mean(lambda: forward, device, count, warmup)
    backward_ms = _mean(ready, device, count, warmup) if case.backward else None
    return forward_ms, backward_ms


def _mean(make: Callable[[], Callable[[], Any]], device: str, count: int, warmup: int) -> float:
    seconds = 0.0
    for number in range(warmup + count):
        run = make()
        _synchronize(device)
        started = time.perf_counter()
        run()
        _synchronize(device)
        if number >= warmup:
            seconds += time.perf_counter() - started
        del run
    return seconds / count * 1000


def _synchronize(device: str) -> None:
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    elif device != "cpu":
        torch.accelerator.synchronize()

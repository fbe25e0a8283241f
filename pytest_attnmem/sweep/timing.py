"""The time of one case, on backends that compute."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .case import SweepCase, timed_passes


def mean_times(
    case: SweepCase, device: str, passes: int, warmup: int
) -> tuple[float, float | None]:
    """Returns the milliseconds of a forward pass without gradients, and of a backward pass alone.

    Each is the mean of ``passes`` passes after ``warmup``; the device is synchronised around each.
    """
    forward, prepare_backward = timed_passes(case, device)
    forward_ms = _mean_ms(lambda: forward, device, passes, warmup)
    backward_ms = _mean_ms(prepare_backward, device, passes, warmup) if case.backward else None
    return forward_ms, backward_ms


def _mean_ms(
    prepare: Callable[[], Callable[[], Any]], device: str, passes: int, warmup: int
) -> float:
    seconds = 0.0
    for number in range(warmup + passes):
        run = prepare()
        _synchronize(device)
        started = time.perf_counter()
        run()
        _synchronize(device)
        if number >= warmup:
            seconds += time.perf_counter() - started
        del run
    return seconds / passes * 1000


def _synchronize(device: str) -> None:
    import torch

    kind = torch.device(device).type
    if kind == "cuda":
        torch.cuda.synchronize(device)
    elif kind != "cpu":
        torch.accelerator.synchronize()

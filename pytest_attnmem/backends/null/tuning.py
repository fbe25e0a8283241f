"""Makes autotuners take the first configuration, because no kernel takes any time."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from ..import_watch import after_import


def keep_first(autotuner: ModuleType) -> None:
    """Makes ``triton.runtime.autotuner`` take the first configuration of each kernel that fits.

    Timing gives the same result, but compiles every configuration for minutes and allocates a
    cache to clear.
    """
    tuner: Any = autotuner.Autotuner
    plain_run, plain_bench = tuner.run, tuner._bench

    @wraps(plain_run)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._attnmem_fits = False  # no argument is kept: a tensor would outlive the program's
        return plain_run(self, *args, **kwargs)

    def bench(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        if self._attnmem_fits:
            return [math.inf] * 3
        self._do_bench = _launch_once
        timings: list[float] = plain_bench(self, *args, config=config, **meta)
        self._attnmem_fits = timings[0] < math.inf  # else the device has too few resources
        return timings

    tuner.run, tuner._bench = run, bench


def _launch_once(launch: Callable[[], None], quantiles: object) -> list[float]:
    launch()
    return [1.0] * 3


def keep_first_configuration() -> None:
    """Replaces the timing of configurations, once compiled code is about to run.

    To time a kernel, Inductor would copy tensors that the kernel changes to the host, which reads
    values that nobody knows, and allocate memory (torch/_inductor/runtime/triton_heuristics.py).
    """
    after_import("torch._inductor.runtime.triton_heuristics", _replace)


def _replace(module: ModuleType) -> None:
    tuner: Any = module.CachingAutotuner
    tuner.bench = _alike


def _alike(self: Any, launcher: Any, *args: Any, **kwargs: Any) -> float:
    """Returns the same time for each configuration; of equal times, the first counts."""
    return 1.0

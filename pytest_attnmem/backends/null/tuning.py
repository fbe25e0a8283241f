"""Makes autotuners take the first configuration, because no kernel takes any time."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from ..import_watch import after_import


def keep_first_configurations() -> None:
    """Makes each autotuner that is imported from now on take the first one that fits."""
    after_import("triton.runtime.autotuner", _keep_first)
    after_import("torch._inductor.runtime.triton_heuristics", _keep_first_of_compiled_code)


def _keep_first(autotuner: ModuleType) -> None:
    """Makes Triton's take the first configuration of each kernel that fits.

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


def _keep_first_of_compiled_code(module: ModuleType) -> None:
    """Gives each configuration the same time; of equal times, the first counts.

    To time a kernel, Inductor would copy tensors that the kernel changes to the host, which reads
    values that nobody knows, and allocate memory (torch/_inductor/runtime/triton_heuristics.py).
    """
    tuner: Any = module.CachingAutotuner
    tuner.bench = lambda self, launcher, *args, **kwargs: 1.0

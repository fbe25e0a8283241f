"""Measures simulation against the null device, MemTracker and bare fake tensors, in one run.

The three of fake tensors take turns in one process, the null device has a process of its own; of
all rounds after the first, the least counts. What counts is the processor's time of the program, so
that other work of the machine says less. Nothing here fails: the ratios are what carries over.
``performance_page.py`` runs it and writes the page.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from ten_programs import PROGRAMS
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from pytest_attnmem.backends.primed_backend import PrimedBackend
from pytest_attnmem.backends.simulated import Simulated
from pytest_attnmem.profiles import find_profile


class Result(NamedTuple):
    """The least seconds of one program, and the highest bytes that were found."""

    seconds: float
    peak: int | None


def measure(
    rounds: int, null: str | None, environment: Mapping[str, str]
) -> dict[str, dict[str, Result]]:
    """Returns the results by program and estimator."""
    warnings.simplefilter("ignore")
    found = {name: here(program, rounds) for name, program in PROGRAMS.items()}
    if null:
        command = [null, str(Path(__file__).resolve()), str(rounds)]
        done = subprocess.run(
            command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
        )
        if done.returncode:
            sys.exit(f"{' '.join(command)} failed")
        for name, result in json.loads(done.stdout.splitlines()[-1]).items():
            found[name]["null"] = Result(*result)
    return found


def here(program: Callable[[], None], rounds: int) -> dict[str, Result]:
    """Returns the results of the estimators that need no CUDA build of torch."""
    backend = Simulated(replace(find_profile("H100"), memory_bytes=1 << 50))
    calls = {
        "FakeTensorMode": lambda: bare(program),
        "MemTracker": lambda: tracked(program),
        "simulated": lambda: measured(backend, program),
    }
    found: dict[str, list[Result]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            found[name].append(call())
    return {name: least(results) for name, results in found.items()}


def least(results: list[Result]) -> Result:
    """Returns the least seconds after the first round, which warms up."""
    return Result(min(result.seconds for result in results[1:]), results[-1].peak)


def bare(program: Callable[[], None]) -> Result:
    """Returns the seconds on fake tensors, which count nothing."""
    with FakeTensorMode():
        return Result(timed(program), None)


def tracked(program: Callable[[], None]) -> Result:
    """Returns the seconds and the peak of PyTorch's tracker of fake tensors."""
    with FakeTensorMode(), MemTracker() as tracker:
        seconds = timed(program)
        peaks = tracker.get_tracker_snapshot("peak")
    return Result(seconds, next(iter(peaks.values()))["Total"] if peaks else None)


def measured(backend: object, program: Callable[[], None]) -> Result:
    """Returns the seconds and the peak in a window of one of our backends."""
    seconds: list[float] = []
    backend.forget()  # type: ignore[attr-defined]
    seen, _ = PrimedBackend(backend, 0).run(lambda: seconds.append(timed(program)))  # type: ignore[arg-type]
    if seen.unmeasured or seen.peak_bytes is None:
        sys.exit(f"not measured: {seen.unmeasured}")
    return Result(seconds[-1], seen.peak_bytes)


def timed(program: Callable[[], None]) -> float:
    """Returns the seconds of the processor that the program takes."""
    gc.collect()
    started = time.process_time()
    program()
    return time.process_time() - started


def on_null(rounds: int) -> Iterator[tuple[str, Result]]:
    """Yields the results of each program on the null device, which this process has."""
    from pytest_attnmem.backends.primed_backend import open_primed

    backend = open_primed("null").backend
    torch.set_default_device("cuda")
    for name, program in PROGRAMS.items():
        yield name, least([measured(backend, program) for _ in range(rounds + 1)])


if __name__ == "__main__":
    print(json.dumps(dict(on_null(int(sys.argv[1])))))

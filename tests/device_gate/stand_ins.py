"""The devices that the gate compares: the simulated one and the null device."""

import gc
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from pytest_attnmem.backends.registry import open_backend

ON = "A100-80GB"


class StandIn:
    """A backend, emptied before each row as a new process would be."""

    def __init__(self, name: str, on: str = ON) -> None:
        self.backend: Any = open_backend(f"{name}:{on}")

    def restart(self) -> None:
        """Empties the device."""
        self.backend.simulation.restart()
        self.backend.name_device()

    def run(self, work: Callable[[], Any]) -> tuple[list[int], str]:
        """Returns the peaks, retained bytes and drawn numbers of a program, and what ails them."""
        gauge = self.backend.gauge()
        with self.backend.world(), collected_after():
            gauge.start()
            try:
                kept = work()
                gc.collect()
            finally:
                seen = gauge.stop()
            offset = int(self.backend.simulation.offset)
            del kept
        numbers = [
            *(seen.requested.peak, seen.allocated.peak, seen.reserved.peak, seen.requested.final),
            offset,
        ]
        return numbers, seen.problem or ""


class NullDevice:
    """The null device of this process, whose numbers are the truth."""

    def __init__(self) -> None:
        from pytest_attnmem.backends.null.settled_backward import settle_each_pass

        torch.cuda.init()
        settle_each_pass()

    def restart(self) -> None:
        """Empties the device, and waits for autograd's thread to free the last step."""
        for _ in range(100):
            gc.collect()
            torch._C._cuda_clearCublasWorkspaces()
            torch.cuda.empty_cache()
            if not torch.cuda.memory_reserved():
                return
            time.sleep(0.02)

    def run(self, work: Callable[[], Any]) -> tuple[list[int], str]:
        """Returns the peaks, retained bytes and drawn numbers of a program, and what ails them."""
        from pytest_attnmem.nulldevice import counts

        torch.cuda.reset_peak_memory_stats()
        calls = counts.unknown_calls()
        with collected_after():
            kept = work()
            gc.collect()
            levels = torch.cuda.memory_stats()
            offset = torch.cuda.default_generators[0].get_offset()
            del kept
        unknown = counts.unknown_calls() != calls
        kinds = ("requested", "allocated", "reserved")
        numbers = [*(levels[f"{kind}_bytes.all.peak"] for kind in kinds)]
        numbers += [levels["requested_bytes.all.current"], offset]
        return numbers, "a call that the null device does not know" if unknown else ""


def in_child(made: Callable[[], Iterable[Any]]) -> tuple[list[Any], int]:
    """Returns what a child of this process makes until its end, and the status of its end."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with os.fdopen(writing, "w") as pipe:
            for one in made():
                print(json.dumps(one), file=pipe, flush=True)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        found = [json.loads(line) for line in pipe]
    return found, os.waitpid(child, 0)[1]


@contextmanager
def collected_after() -> Iterator[None]:
    """Collects no garbage in the body: PyTorch's own Python code makes cycles that hold tensors."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()

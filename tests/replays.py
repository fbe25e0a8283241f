"""Recorded workloads, run again on a simulated device: what both tests and the page show."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from recordings import INSTALLED, read

from pytest_attnmem.backends.primed_backend import PrimedBackend
from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.errors import AttnMemError, ProgramRefused
from pytest_attnmem.measurement.garbage import freeze_present, unfreeze_all
from pytest_attnmem.measurement.protocol import BackendProtocol

TESTS = Path(__file__).parent
KINDS = ("requested", "allocated", "reserved")


@dataclass(frozen=True, slots=True)
class Peaks:
    """Highest bytes of one workload from a fresh process on; or why there are none."""

    requested: int
    allocated: int
    reserved: int
    problem: str = ""

    def less(self, other: "Peaks") -> tuple[int, ...]:
        return tuple(getattr(self, kind) - getattr(other, kind) for kind in KINDS)


@cache
def workloads(name: str) -> dict[str, Callable[[], None]]:
    """Those of ``tests/null/<name>.py``, which the null device runs too."""
    spec = spec_from_file_location(name, TESTS / "null" / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return {**module.WORKLOADS, "flash_paper": getattr(module, "flash_paper", None)}


def recorded(name: str, version: str = INSTALLED) -> dict[str, dict[str, Peaks]]:
    """Workload → device → peaks, of ``<name>.json`` of a version."""
    found: dict[str, dict[str, Peaks]] = {}
    for row in read(name, version)["peaks"]:
        peaks = Peaks(*(row[kind] for kind in KINDS))
        found.setdefault(row["workload"], {})[row["device"]] = peaks
    return found


@cache
def device(name: str) -> BackendProtocol:
    """The simulated one of that name, opened once."""
    return open_backend(f"simulated:{name}")


def emptied(backend: Any, *, primed: bool = True) -> None:
    """Empties a simulated device, as in a new process; libraries have workspaces if ``primed``."""
    backend.simulation.restart()
    if primed:
        backend.prime()


def replay(call: Callable[[], object], on: str, *, primed: bool = False) -> Peaks:
    """One call in a process of its own, as far as the device can tell."""
    backend = device(on)
    emptied(backend, primed=primed)
    try:
        seen, _ = PrimedBackend(backend, 0).run(call)
    except (ProgramRefused, Exception) as error:  # how else it ends than well is a gap
        ours = isinstance(error, (AttnMemError, ProgramRefused))
        kind = "" if ours else f"{type(error).__name__}: "
        return Peaks(0, 0, 0, f"{kind}{error}")
    problem = seen.unmeasured or (f"out of memory: {seen.out_of_memory}" * bool(seen.out_of_memory))
    return Peaks(seen.peak_bytes, seen.allocated_bytes, seen.reserved_bytes, problem)


@contextlib.contextmanager
def quick_collections() -> Iterator[None]:
    """Freeze what PyTorch made, so that collecting before each window costs little."""
    freeze_present()
    try:
        yield
    finally:
        unfreeze_all()

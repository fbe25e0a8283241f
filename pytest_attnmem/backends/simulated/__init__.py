"""The simulated backend: programs run on tensors without data, as on a CUDA device."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import torch

from ...allocator import settings_from
from ...errors import BackendUnavailable
from ...measurement.installed_torch import missing_rules
from ...measurement.peak_watch import PeakWatch
from ...measurement.protocol import Interval, Recorder
from ...profiles import DEFAULT_PROFILE, DeviceProfile, find_profile
from ..tracing.dispatch_tracker import raised_at
from ..tracing.holders import NamesHolders, holders
from ..tracing.live_tensors import Watch
from ..tracing.tensor_origin import Origins
from .fake_tensor import DEVICE
from .op_plan import Planner
from .op_rules import plan, program_only

if TYPE_CHECKING:
    from .outside import Outside
    from .simulation import Simulation

__all__ = ["Simulated", "open_backend", "program_only"]


class Simulated:
    """A simulated CUDA device."""

    device: str = DEVICE
    computes = True
    larger_is_free = True

    def __init__(self, profile: DeviceProfile, planner: Planner | None = None) -> None:
        from .simulation import Simulation

        self.profile = profile
        self.name = f"simulated:{profile.name}"
        self._simulation = Simulation(profile, settings_from(os.environ), planner or plan)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Returns ``simulated``, ``sm80`` and ``cuda``."""
        major, minor = self.profile.compute_capability
        return ("simulated", f"sm{major}{minor}", "cuda")

    @property
    def symbols(self) -> Mapping[str, int]:
        """Returns an empty mapping: formulas read no facts of the device."""
        return {}

    def world(self) -> AbstractContextManager[None]:
        """Returns the context in which measured programs run."""
        return self._simulation.active()

    def outside(self) -> Outside:
        """Returns the device as a session shows it to fixtures, imports and other tests."""
        return self._simulation.outside()

    def join(self, outside: Outside) -> None:
        """Takes part in a session that shows that device outside windows."""
        self._simulation.join(outside)

    @property
    def starts_again(self) -> str:
        """Returns the reason why the program must start again, even if it caught the error."""
        return self._simulation.placement.starts_again

    def failed(self, error: Exception) -> None:
        """Has a program run again whose tensors may be on the device by mistake."""
        self._simulation.placement.failed(error)

    def name_device(self) -> None:
        """Takes the next program for one that names the device."""
        self._simulation.placement.foresee()

    def lookahead(self) -> AbstractContextManager[None] | None:
        """Returns a context without limits of memory, while the program may yet name the device.

        If it names the device, its earlier tensors belong on the host and need no device memory.
        """
        return self._unlimited() if self._simulation.placement.may_start_again else None

    @contextmanager
    def _unlimited(self) -> Iterator[None]:
        self._simulation.restart(unlimited=True)
        self.prime()
        try:
            with self.world():
                yield
        finally:
            if not self.starts_again:  # then the next window restarts the device by itself
                self._restart()

    def prime(self) -> int:
        """Allocates library workspaces, as on a device used before; returns their bytes."""
        return self._simulation.prime()

    def gauge(self) -> Recorder:
        """Returns the simulation, which records its own device."""
        return self._simulation

    def forget(self, primed: bool = True) -> None:
        """Empties the device for another test, except for library workspaces if ``primed``.

        In a session whose fixtures see the device, the tensors that are still alive stay on it.
        """
        self._simulation.keep()
        self._restart(primed)

    def end_run(self, *, settled: bool) -> None:
        """Ends a run of a session's test, before its state is kept or put back."""
        if (outside := self._simulation.placement.outside) is not None:
            outside.settle(drop=not settled)

    def _restart(self, primed: bool = True) -> None:
        self._simulation.restart()
        if primed:
            self._simulation.prime()

    def tracer(self) -> Recorder:
        """Returns a recorder that also finds the modules and roles of tensors."""
        return _Tracing(self._simulation)

    def limit_values(self, limit: int) -> None:
        """Limits the floating-point operations of one read of values."""
        self._simulation.values.limit(limit)

    def empty_cache(self) -> None:
        """Releases unused segments."""
        self._simulation.device.empty_cache()

    def out_of_memory(self, error: BaseException) -> str | None:
        """Returns ``needs 20.0 GiB more at attn.py:5`` for an out-of-memory error, else None."""
        if not isinstance(error, torch.OutOfMemoryError):
            return None
        return self._simulation.device.out_of_memory or f"it does not fit{raised_at(error)}"


class _Tracing(NamesHolders):
    """A recorder of a simulation that also finds modules and roles."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._watching: Watch | None = None
        self._origins = Origins()  # of all its intervals: backward follows forward

    def start(self) -> None:
        self._simulation.trace(self._origins)
        self._simulation.start()
        self._simulation.device.watch(self._watching)

    def stop(self) -> Interval:
        interval = self._simulation.stop()
        self._simulation.device.watch(None)
        self._simulation.trace(None)
        return interval

    def allocation_of(self, storage: torch.UntypedStorage) -> int | None:
        """Returns the number of the allocation of a live storage; None for an input's."""
        block = self._simulation.block_of(storage)
        return block.number if block is not None and block.number >= 0 else None

    def watch(self, peak: PeakWatch) -> None:
        """Has ``peak`` see each new tensor of the device."""
        peak.begin(partial(holders, allocation_of=self.allocation_of, running=True))
        self._watching = peak.allocated


def open_backend(argument: str, profiles: Iterable[DeviceProfile] = ()) -> Simulated:
    """Returns the device with that profile, which may be one of ``profiles``; else an A100-80GB.

    It measures nothing on a torch whose rules are unknown.

    Raises:
        BackendUnavailable: there is no such profile, or this torch lacks the private APIs.
    """
    profile, missing = find_profile(argument or DEFAULT_PROFILE, profiles), missing_rules()
    try:
        if missing:
            from .without_rules import WithoutRules

            return WithoutRules(profile, missing)
        return Simulated(profile)
    except (ImportError, AttributeError) as error:
        raise BackendUnavailable(
            f"backend 'simulated' does not run on torch {torch.__version__}: {error}"
        ) from error

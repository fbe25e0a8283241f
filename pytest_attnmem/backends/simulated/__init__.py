"""The simulated backend: programs run on a CUDA device of PyTorch's own that has no memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import torch

from ...errors import BackendUnavailable
from ...measurement.installed_torch import missing_rules
from ...measurement.protocol import Interval, Recorder
from ...profiles import DEFAULT_PROFILE, DeviceProfile, find_profile
from ..base import Backend
from ..tracing.dispatch_tracker import raised_at
from .memory.simulated_device import DeviceName
from .operators.op_rules import plan, program_only
from .scratch.op_plan import Planner

if TYPE_CHECKING:
    from .session.session_device import SessionDevice
    from .session.simulation import DeviceSimulation

__all__ = ["Simulated", "open_backend", "plan", "program_only"]


#: Bytes of the device: nothing is known of what a program needs, so it never runs out of memory.
_UNLIMITED = 1 << 60


class Simulated(Backend):
    """A simulated CUDA device, whose tensors are PyTorch's own."""

    device = DeviceName("cuda:0")
    computes = True
    larger_is_free = True

    def __init__(self, profile: DeviceProfile, planner: Planner = plan) -> None:
        from .session.process import process_device
        from .session.simulation import DeviceSimulation

        self.profile = profile
        self.name = f"simulated:{profile.name}"
        self._process = process_device()
        self._simulation = DeviceSimulation(profile, self._process, planner)
        self._session: SessionDevice | None = None

    @property
    def simulation(self) -> DeviceSimulation:
        """Returns the simulation: inside the window of another device of this kind, that one's."""
        own, running = self._simulation, self._process.operators.current
        same = running.inside and (running.profile, running.plan) == (own.profile, own.plan)
        return cast("DeviceSimulation", running) if same else own

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
        if self._session is not None and self._session.named:
            self.name_device()
        return self.simulation.active()

    def outside(self) -> SessionDevice:
        """Returns the device as a session shows it to fixtures, imports and other tests."""
        from .session.session_device import SessionDevice

        session = SessionDevice(self.simulation, self._process)
        self.join(session)
        return session

    def join(self, session: SessionDevice) -> None:
        """Takes part in a session that shows that device outside windows."""
        self._session = session

    @property
    def starts_again(self) -> str:
        """Returns the reason why the program must start again, even if it caught the error."""
        return self.simulation.placement.starts_again

    def failed(self, error: Exception) -> None:
        """Has a program run again whose tensors may be on the device by mistake."""
        self.simulation.placement.failed(error)

    def name_device(self) -> None:
        """Takes this test for one that names the device: what it makes elsewhere is on the host."""
        self.simulation.name_device()

    def lookahead(self) -> AbstractContextManager[None] | None:
        """Returns a context without limits of memory, while the program may yet name the device.

        If it names the device, its earlier tensors belong on the host and need no device memory.
        """
        return self._unlimited() if self.simulation.placement.may_start_again else None

    @contextmanager
    def _unlimited(self) -> Iterator[None]:
        with self.simulation.device.unlimited(), self.world():
            yield

    def forget(self) -> None:
        """Begins another test, which names no device unless somebody says so; the heap stays."""
        self.simulation.placement.restart()

    def restart(self) -> None:
        """Empties the device, as in a new process, but for the workspaces of libraries."""
        self.simulation.restart()
        self.prime()

    def gauge(self) -> Recorder:
        """Returns the simulation, which records its own device."""
        return self.simulation

    def tracer(self) -> Recorder:
        """Returns a recorder that also finds the modules and roles of tensors."""
        from .session.tracer import DeviceTracer

        return DeviceTracer(self.simulation, self._process.maker)

    def limit_values(self, limit: int) -> None:
        """Limits the floating-point operations of one read of values."""
        self.simulation.tape.replay.limit = limit

    def prime(self) -> int:
        """Allocates the workspaces of libraries, once; returns their bytes."""
        return self.simulation.prime()

    def empty_cache(self) -> None:
        """Releases unused segments."""
        self.simulation.device.empty_cache()

    def out_of_memory(self, error: BaseException) -> str | None:
        """Returns ``needs 20.0 GiB more at attn.py:5`` for an out-of-memory error, else None."""
        if not isinstance(error, torch.OutOfMemoryError):
            return None
        return self.simulation.device.out_of_memory or f"it does not fit{raised_at(error)}"


class WithoutRules(Simulated):
    """A device whose windows are not measured, for the reason ``missing``."""

    def __init__(self, profile: DeviceProfile, missing: str) -> None:
        super().__init__(replace(profile, memory_bytes=_UNLIMITED))
        self._missing = missing

    def prime(self) -> int:
        """Allocates library workspaces; returns 0, because their bytes are unknown."""
        super().prime()
        return 0

    def gauge(self) -> Recorder:
        """Returns a recorder that measures nothing."""
        return _Unmeasured(super().gauge(), self._missing)

    def tracer(self) -> Recorder:
        """Returns a recorder that measures nothing, and lists no tensor."""
        return _Unmeasured(super().tracer(), self._missing)


class _Unmeasured:
    """Runs a recorder, and keeps none of its numbers."""

    def __init__(self, recorder: Recorder, missing: str) -> None:
        self._recorder = recorder
        self._missing = missing

    def start(self) -> None:
        self._recorder.start()

    def stop(self) -> Interval:
        allocations = self._recorder.stop().allocations
        return Interval(None, None, None, allocations, self._missing)


def open_backend(argument: str, profiles: Iterable[DeviceProfile] = ()) -> Simulated:
    """Returns the device with that profile, which may be one of ``profiles``; else an A100-80GB.

    It measures nothing on a torch whose rules are unknown.

    Raises:
        BackendUnavailable: there is no such profile, or a real device, or this torch lacks the
            private APIs.
    """
    profile, missing = find_profile(argument or DEFAULT_PROFILE, profiles), missing_rules()
    try:
        if missing:
            return WithoutRules(profile, missing)
        return Simulated(profile)
    except (ImportError, AttributeError) as error:
        raise BackendUnavailable(
            f"backend 'simulated' does not run on torch {torch.__version__}: {error}"
        ) from error

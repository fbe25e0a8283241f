"""A backend made ready: opened, and its one-time costs brought on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import BackendUnavailable, StartAgain
from ..measurement.measurement import Measurement
from ..measurement.protocol import Backend, simulation_context
from ..measurement.timeline import MOST
from ..measurement.window import Window
from ..measurement.window_stack import is_measured, pause, window
from ..units import excerpt
from .registry import BACKENDS, Opener, open_backend

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PrimedBackend:
    """What measurements are made with."""

    backend: Backend
    workspace_bytes: int
    """What priming left allocated; reported apart, and part of no measurement."""
    evidence: bool = False
    """Whether windows keep who was alive when."""

    def window(
        self, metric: str = "peak", *, trace: bool = False, most: int = 0
    ) -> AbstractContextManager[Window]:
        """Measures the body of a ``with``; see :func:`.window_stack.window`."""
        return window(
            self.backend,
            metric,
            workspace=self.workspace_bytes,
            trace=trace,
            evidence=self.evidence or bool(most),
            most=most or MOST,
        )

    def run(
        self, call: Callable[[], Any], *, trace: bool = False, most: int = 0
    ) -> tuple[Measurement, Any]:
        """Measure one call; returns the measurement, of running out of memory too, and the result.

        With ``most``, the measurement has a timeline with so many tensors each on its own.
        """
        return self._complete(lambda: self._run(call, trace, most))

    def warm_up(self, call: Callable[[], Any], times: int) -> None:
        """Make calls that nobody measures."""
        with simulation_context(self.backend):
            for _ in range(times):
                self._complete(call)

    def _complete(self, call: Callable[[], _T]) -> _T:
        """Returns the result of the call, which is made once more where it has to start again."""
        try:
            return call()
        except StartAgain:
            if is_measured(self.backend):  # a window around the call must start again too
                raise
            return call()

    def _run(self, call: Callable[[], Any], trace: bool, most: int) -> tuple[Measurement, Any]:
        result = opened = None
        try:
            # Reserved bytes count from an emptied cache; the other metrics do not mind.
            with self.window("reserved", trace=trace, most=most) as opened:
                result = call()
        except BaseException:
            if opened is None or opened.out_of_memory is None:
                raise
        if opened is None or opened.measurement is None:
            raise RuntimeError("a window ended without a measurement")
        return opened.measurement, result


def open_primed(
    name: str, openers: Mapping[str, Opener] = BACKENDS, *, evidence: bool = False
) -> PrimedBackend:
    """Open and prime the backend that ``name`` asks for.

    Raises:
        BackendUnavailable: it cannot measure here.
    """
    backend = open_backend(name, openers)
    try:
        with pause():  # of windows that are open by now
            return PrimedBackend(backend, backend.prime(), evidence)
    except Exception as error:  # a foreign allocator, a device without room
        why = excerpt(f"{type(error).__name__}: {error}", 160)
        raise BackendUnavailable(f"backend {name!r} could not be primed: {why}") from error

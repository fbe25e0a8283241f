"""A backend that is open, and whose libraries have made their allocations of first use."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, TypeVar

from ..errors import BackendUnavailable, ProgramRefused, StartAgain
from ..measurement.held import Returned
from ..measurement.measurement import Measurement
from ..measurement.protocol import BackendProtocol, simulation_context
from ..measurement.timeline import MOST
from ..measurement.window import Window
from ..measurement.window_stack import HolderSearch, is_measured, pause, window
from ..program_frames import hide_own_frames
from ..units import excerpt
from .import_watch import after_import
from .registry import BACKENDS, Opener, open_backend, starts_again

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PrimedBackend:
    """A backend that is ready to measure."""

    backend: BackendProtocol
    workspace_bytes: int
    """The bytes that priming left allocated; reported once, and not counted in any measurement."""
    evidence: bool = False
    """True if windows keep a timeline of their tensors."""

    @contextmanager
    def window(
        self,
        metric: str = "peak",
        *,
        trace: bool = False,
        most: int = 0,
        search: HolderSearch = None,
    ) -> Iterator[Window]:
        """Measures its body; see :func:`.window_stack.window`."""
        opened = window(
            self.backend,
            metric,
            workspace=self.workspace_bytes,
            trace=trace,
            evidence=self.evidence or bool(most),
            most=most or MOST,
            search=search,
        )
        with import_frames_freed(), opened as found:
            yield found

    def run(
        self,
        call: Callable[[], Any],
        *,
        trace: bool = False,
        most: int = 0,
        search: HolderSearch = None,
    ) -> tuple[Measurement, Any]:
        """Returns the measurement of one call, also of one that runs out of memory, and its result.

        With ``most``, the measurement has a timeline that lists that many tensors one by one.
        """
        try:
            return self._complete(lambda: self._run(call, trace, most, search))
        except Exception as error:  # one that is the program's shows its line last, without pytest
            hide_own_frames(error)
            raise

    def warm_up(self, call: Callable[[], Any], times: int) -> None:
        """Makes calls that are not measured."""
        if not times:
            return
        with simulation_context(self.backend):
            for _ in range(times):
                self._complete(call)

    def _complete(self, call: Callable[[], _T]) -> _T:
        """Returns the result of the call, which is repeated if it has to start again."""
        try:
            result = call()
            if is_measured(self.backend) or not starts_again(self.backend):
                return result
            del result  # it may hold tensors of the device
        except (StartAgain, ProgramRefused, Exception):
            if is_measured(self.backend):  # a window around the call must start again too
                raise
            if not starts_again(self.backend):
                raise
        return call()  # not above: an error of it would keep the frames of the first call

    def _run(
        self, call: Callable[[], Any], trace: bool, most: int, search: HolderSearch
    ) -> tuple[Measurement, Any]:
        returned, opened = Returned(None), None
        try:
            # Reserved bytes count from an empty cache; the other metrics do not depend on it.
            with self.window("reserved", trace=trace, most=most, search=search) as opened:
                returned.result = call()
        except BaseException:
            if opened is None or opened.out_of_memory is None:
                raise
        if opened is None or opened.measurement is None:
            raise RuntimeError("a window ended without a measurement")
        return opened.measurement, returned.result


def open_primed(
    name: str, openers: Mapping[str, Opener] = BACKENDS, *, evidence: bool = False
) -> PrimedBackend:
    """Opens and primes the backend of this name.

    Raises:
        BackendUnavailable: it cannot measure here.
    """
    try:
        with pause(), warnings.catch_warnings():  # windows that are open do not count it
            warnings.simplefilter("ignore")  # no program made these calls
            backend = open_backend(name, openers)
            return PrimedBackend(backend, backend.prime(), evidence)
    except BackendUnavailable:
        raise
    except (ProgramRefused, Exception) as error:  # a foreign allocator, a device without room
        why = excerpt(f"{type(error).__name__}: {error}", 160)
        raise BackendUnavailable(f"backend {name!r} could not be primed: {why}") from error


_MODULE: Final = "torch._dynamo"


@contextmanager
def import_frames_freed() -> Iterator[None]:
    """Frees these frames if the body imports the module; it collects no other garbage."""
    if _MODULE in sys.modules:
        yield
        return
    give_up = after_import(_MODULE, lambda _: _free())
    try:
        yield
    finally:
        give_up()


def _free() -> None:
    from torch.fx import wrap

    for found in gc.get_objects():
        if type(found) is FrameType and found.f_code is wrap.__code__:
            found.clear()

"""The base class of backends: a backend gives a name, a device and a recorder, the rest is here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType

from ..measurement.protocol import Recorder

_NO_SYMBOLS: Mapping[str, int] = MappingProxyType({})


class Backend(ABC):
    """A way to observe memory on one device.

    A subclass sets ``name`` and ``device`` and defines :meth:`gauge`; it overrides a default where
    its device differs. ``kinds``, ``symbols`` and ``starts_again`` may be class attributes or
    properties.
    """

    name: str
    """The name that ``--attnmem-backend`` takes: ``cpu``."""
    device: str
    """The device that the backend reads, as torch names it: ``cuda:0``."""
    computes: bool = True
    """True if tensors have values on the device, for a test to look at."""
    _fault: str | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Returns the keys of a budget's dict that mean this device, closest first.

        The default is the name and the device, both without the part after the colon.
        """
        return tuple(dict.fromkeys(part.partition(":")[0] for part in (self.name, self.device)))

    @property
    def symbols(self) -> Mapping[str, int]:
        """Returns the facts of the device that formulas may read, such as ``threads``: none."""
        return _NO_SYMBOLS

    @property
    def starts_again(self) -> str:
        """Returns the reason why the program must run again from its start; empty: it need not."""
        return ""

    @abstractmethod
    def gauge(self) -> Recorder:
        """Returns a recorder of the device's memory."""

    def tracer(self) -> Recorder:
        """Returns a recorder that lists the tensors, for one more run of a test that failed.

        The default is the dispatcher's view: tensors with names, without scratch inside kernels.
        """
        from .tracing.dispatch_tracker import Tracker

        return Tracker(self.fault_of_dispatcher)

    @property
    def fault_of_dispatcher(self) -> str:
        """Returns why the dispatcher does not show tensors on this torch; empty if it does."""
        if self._fault is None:
            from .tracing.dispatch_tracker import prime

            self._fault = prime()
        return self._fault

    def prime(self) -> int:
        """Causes the allocations of first use; returns the bytes that stay allocated: 0."""
        return 0

    def forget(self) -> None:  # noqa: B027  # a default
        """Begins another test; a backend that remembers facts of a test forgets them."""

    def empty_cache(self) -> None:  # noqa: B027  # a default
        """Gives unused segments back to the device, where the allocator keeps any."""

    def out_of_memory(self, error: BaseException) -> str | None:
        """Returns the request that failed if ``error`` says that memory ran out, else ``None``."""
        return None

    def failed(self, error: Exception) -> None:  # noqa: B027  # a default
        """Learns of the error of a program in ``world``; it may set ``starts_again``."""

    @property
    def larger_is_free(self) -> bool:
        """Returns True if a run at larger sizes costs nothing more: no tensor has memory."""
        return not self.computes

    def world(self) -> AbstractContextManager[None]:
        """Returns the context that programs run in while they are measured."""
        return nullcontext()

    def lookahead(self) -> AbstractContextManager[None] | None:
        """Returns a context without limits, for a device that later code may still change.

        ``None`` where no program can do so.
        """
        return None

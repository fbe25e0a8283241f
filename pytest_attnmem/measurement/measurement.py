"""The memory of one window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import BudgetError
from ..units import format_size
from .held import Held

if TYPE_CHECKING:
    from .timeline import Timeline
    from .traced_tensors import TracedTensors

METRICS = ("peak", "allocated", "reserved", "retained")


@dataclass(frozen=True, slots=True)
class Measurement:
    """The memory of one window, in bytes above its start. ``None``: not measured there.

    ``docs/evidence/limits.md`` explains the four numbers.
    """

    backend: str
    device: str
    peak_bytes: int | None
    """The most requested bytes alive at once."""
    allocated_bytes: int | None
    """The most bytes alive at once with the allocator's rounding."""
    reserved_bytes: int | None
    """The highest growth of the segments taken from the device."""
    retained_bytes: int | None
    """Bytes alive at the end, before any garbage collection."""
    allocations: int
    """The number of allocations in the window."""
    workspace_bytes: int = 0
    """The bytes that priming the device's libraries left allocated; not part of the window."""
    duration_s: float = 0.0
    kinds: tuple[str, ...] = ()
    """The keys of a budget's dict that mean the device, closest first."""
    symbols: Mapping[str, int] = field(default_factory=dict)
    """The facts of the device that formulas may read, such as ``threads``."""
    unmeasured: str | None = None
    """Why the numbers may be wrong."""
    imported: str = ""
    """The module of torch whose import in the window may have pinned retained tensors."""
    pinned_bytes: int = 0
    """The most bytes that the import pinned: garbage that a collection frees."""
    unseen_bytes: int = 0
    """The largest allocation that is of no tensor, where the recorder lists tensors and sees it."""
    missing: str = ""
    """Why a number is ``None``."""
    out_of_memory: str | None = None
    """The request that failed, if memory ran out."""
    recovered: str = ""
    """The first request that failed, if the program caught the error and went on."""
    held: tuple[Held, ...] = ()
    """The tensors alive at the peak, largest first, where the recorder lists tensors."""
    left: tuple[Held, ...] = ()
    """The tensors alive at the end, likewise."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """The bytes of a model at its peak by term and module: ``saved for backward of blocks.*.mlp``.
    """
    timeline: Timeline | None = field(default=None, compare=False, repr=False)
    """The allocations and frees, where the window kept them."""
    tensors: TracedTensors | None = field(default=None, compare=False, repr=False)
    """All tensors that were allocated, where the run was traced."""
    snapshots: tuple[Mapping[str, Any], ...] = field(default=(), compare=False, repr=False)
    """The allocator's snapshot of each interval of the window, likewise."""
    held_note: str = ""
    """Why ``held`` is empty, or the memory that it leaves out."""
    result: Any = field(default=None, compare=False, repr=False)
    """The value that the measured function returned."""
    trace: Callable[[], Measurement] | None = field(default=None, compare=False, repr=False)
    """Runs the function once more and returns a measurement that lists the tensors."""

    def __repr__(self) -> str:
        """Returns one line: a failing ``assert`` on a number prints the measurement."""
        return f"<Measurement: {self}>"

    def __str__(self) -> str:
        """Returns the numbers in one line: ``peak 64.0 MiB, retained 0 B on cpu``."""
        found = [
            f"{metric} {format_size(value)}"
            for metric in ("peak", "allocated", "reserved", "retained")
            if (value := self.value(metric)) is not None
        ]
        doubt = f" ({self.unmeasured})" if self.unmeasured else ""
        return f"{', '.join(found) or 'not measured'} on {self.place}{doubt}"

    @property
    def place(self) -> str:
        """Returns the device, or the backend that stands for a device, ``null:H100``."""
        return self.backend if ":" in self.backend else self.device

    @property
    def recovery(self) -> str:
        """Returns the remark on a program that caught the error of running out of memory; or ""."""
        return f"ran out of memory and went on: {self.recovered}" if self.recovered else ""

    def value(self, metric: str) -> int | None:
        """Returns the number that ``metric`` names."""
        number: int | None = getattr(self, f"{metric}_bytes")
        return number

    def known(self, metric: str) -> int:
        """Returns the bytes of a metric.

        Raises:
            BudgetError: the metric was not measured, is in doubt, or was cut off by the device.
        """
        value = self.value(metric)
        if self.out_of_memory is not None:
            raise BudgetError(f"out of memory on {self.place}: {self.out_of_memory}")
        if self.recovered:
            raise BudgetError(self.recovery)
        if self.unmeasured is not None:
            raise BudgetError(f"{metric} is not known: {self.unmeasured}")
        if value is None:
            raise BudgetError(f"{metric} is not measured on {self.backend}")
        if doubt := self.doubt(metric):
            raise BudgetError(f"{metric} is not known: {doubt}")
        return value

    def doubt(self, metric: str) -> str:
        """Returns why the number that ``metric`` names may be too large; empty where it is not."""
        if metric != "retained" or not self.pinned_bytes:
            return ""
        return (
            f"the first use of {self.imported} was in it, and imports keep tensors alive;"
            " measure a second run: warmup=1"
        )

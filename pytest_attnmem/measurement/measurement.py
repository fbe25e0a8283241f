"""What a backend saw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .held import Held

if TYPE_CHECKING:
    from .allocations import Lives
    from .timeline import Timeline

METRICS = ("peak", "allocated", "reserved", "retained")


@dataclass(frozen=True, slots=True)
class Measurement:
    """The memory of one window, in bytes above its start. ``None``: not measured there.

    See the glossary in the README for what each number means.
    """

    backend: str
    device: str
    peak_bytes: int | None
    """Highest requested bytes alive."""
    allocated_bytes: int | None
    """The same with the allocator's rounding."""
    reserved_bytes: int | None
    """Highest growth of the segments taken from the device."""
    retained_bytes: int | None
    """Bytes alive at the end, before any garbage collection."""
    allocations: int
    """How many allocations the window saw."""
    workspace_bytes: int = 0
    """What priming the device's libraries left allocated, before the window and not part of it."""
    duration_s: float = 0.0
    kinds: tuple[str, ...] = ()
    """The keys of a budget's dict that mean the device, closest first."""
    symbols: Mapping[str, int] = field(default_factory=dict)
    """What formulas may read of the device, such as ``threads``."""
    unmeasured: str | None = None
    """Why these numbers must not be taken for the truth."""
    imported: str = ""
    """The module of torch whose import in the window may have pinned retained tensors."""
    pinned_bytes: int = 0
    """The most bytes that the import pinned: garbage that a collection frees."""
    missing: str = ""
    """Why a number is ``None``."""
    out_of_memory: str | None = None
    """What was asked for when memory ran out."""
    held: tuple[Held, ...] = ()
    """The tensors alive at the peak, largest first, where that was looked up."""
    left: tuple[Held, ...] = ()
    """The tensors alive at the end, likewise."""
    timeline: Timeline | None = field(default=None, compare=False, repr=False)
    """Who was alive when, where that was looked up."""
    lives: Lives | None = field(default=None, compare=False, repr=False)
    """All tensors that were allocated, where the run was traced."""
    snapshots: tuple[Mapping[str, Any], ...] = field(default=(), compare=False, repr=False)
    """What the allocator told of each stretch of the window, likewise."""
    held_note: str = ""
    """What is to be known about ``held``: why it is empty, or what it leaves out."""
    result: Any = field(default=None, compare=False, repr=False)
    """What the measured function returned."""
    trace: Callable[[], Measurement] | None = field(default=None, compare=False, repr=False)
    """Runs the function once more, to see what is held at the peak."""

    @property
    def place(self) -> str:
        """Where this was seen: the device, or what stands for it, ``null:H100``."""
        return self.backend if ":" in self.backend else self.device

    def value(self, metric: str) -> int | None:
        """The number that ``metric`` names."""
        number: int | None = getattr(self, f"{metric}_bytes")
        return number

    def doubt(self, metric: str) -> str:
        """Returns why the number that ``metric`` names may be too large; empty where it is not."""
        if metric != "retained" or not self.pinned_bytes:
            return ""
        return (
            f"the first use of {self.imported} was in it, and imports keep tensors alive;"
            " measure a second run: warmup=1"
        )

"""The outcome of an operator call, kept so that the same call need not be computed again."""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...values.notes import Layouts
from .op_plan import AllocationPlan

if TYPE_CHECKING:
    import torch


#: What is known of layouts at first.
UNKNOWN: Final = Layouts((), ())
#: The most offsets at which the layouts of one call are kept.
_MOST: Final = 2048


def offsets_key(offsets: list[int]) -> tuple[int, ...]:
    """Returns the offsets of a call's tensors, or nothing if each is 0."""
    return tuple(offsets) if any(offsets) else ()


class CachedOutput(NamedTuple):
    """A recipe for one output of an operator."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    offset: int
    """The elements from the first of its source."""
    device: torch.device
    source: int
    """The position of the argument that the output is a view of, or -1."""


class CachedOp:
    """A cached operator call: its outputs, its allocation plan, and the layouts of its tensors."""

    __slots__ = ("_layouts", "container", "outputs", "plan", "returns_first")

    def __init__(
        self,
        outputs: tuple[CachedOutput | int | None, ...],
        container: type | None = None,
        returns_first: bool = False,
    ) -> None:
        self.outputs = outputs
        """A recipe for each output that is a tensor, and the other outputs themselves."""
        self.container = container
        """``tuple`` or ``list``; None for a single tensor."""
        self.returns_first = returns_first
        """True if the operator returns its first argument."""
        self._layouts: dict[tuple[int, ...], Layouts] = {}
        self.plan: AllocationPlan | EllipsisType | None = ...
        """The allocation plan: None if no model knows it, ``...`` while nobody has asked."""

    def layouts(self, offsets: tuple[int, ...]) -> Layouts:
        """Returns the layouts of its tensors at those offsets; empty if they are not known."""
        return self._layouts.get(offsets, UNKNOWN)

    def learn_layouts(self, offsets: tuple[int, ...], inputs: Any, outputs: Any) -> None:
        """Keeps the layouts of its tensors; those of an operator without values are empty."""
        if len(self._layouts) >= _MOST:
            self._layouts.clear()
        self._layouts[offsets] = Layouts(tuple(inputs), tuple(outputs))

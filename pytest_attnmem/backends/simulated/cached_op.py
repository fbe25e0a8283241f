"""The outcome of an operator call, kept so that the same call need not be computed again."""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, NamedTuple

from ...values.notes import Layouts
from .op_plan import AllocationPlan

if TYPE_CHECKING:
    import torch


class CachedOutput(NamedTuple):
    """A recipe for one output of an operator."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    offset: int
    device: torch.device
    source: int
    """The position of the argument that the output is a view of, or -1."""


class CachedOp:
    """A cached operator call: its outputs, its allocation plan, and the layouts of its tensors."""

    __slots__ = ("container", "layouts", "outputs", "plan", "returns_first")

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
        self.layouts = Layouts((), ())
        """The layouts of its tensors; empty if it writes no values."""
        self.plan: AllocationPlan | EllipsisType | None = ...
        """The allocation plan: None if no model knows it, ``...`` while nobody has asked."""

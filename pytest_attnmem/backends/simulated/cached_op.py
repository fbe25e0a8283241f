"""The result of an operator call, kept so that the same call need not be computed again."""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, NamedTuple

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
    """A cached operator call: its outputs, plus a slot for its allocation plan."""

    __slots__ = ("container", "outputs", "plan", "returns_first")

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
        self.plan: AllocationPlan | EllipsisType | None = ...
        """The allocation plan: None if no model knows it, ``...`` while nobody has asked."""

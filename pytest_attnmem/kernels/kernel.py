"""The row of a kernel in the table of bundled kernels; each kernel's file declares its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..budgets.memory_model import KernelModel

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Kernel:
    """A bundled kernel: its name, its attention, its memory model and the inputs it accepts."""

    name: str
    attention: Callable[..., torch.Tensor]
    """``(q, k, v, *, causal, …) → out``, all [B, H, N, d]."""
    model: KernelModel
    causal: tuple[bool, ...] = (False, True)
    """The accepted values of ``causal``."""
    mask: bool = False
    """True if it accepts ``mask``, broadcastable to [B, H, N, M]: True marks a visible key, numbers
    are added. The symbol ``mask`` of its model is a bool mask's number of elements, or 0."""
    gqa: bool = False
    """True if k and v may have fewer heads than q."""
    equal_head_dims: bool = False
    """True if v must be as wide as q and k."""
    softmax: bool = True
    """True if it computes softmax attention, as the standard kernel does."""
    pattern: Callable[[Any], Any] | None = None
    """The keys that a query of a sparse kernel sees by default: bool [N, M], computed from the
    distance of each key behind the query, integers [N, M]."""
    devices: tuple[str, ...] = ("cpu", "cuda")
    """The device types that it runs on."""

    @property
    def always_causal(self) -> bool:
        """True if ``causal=True`` is the only accepted value."""
        return False not in self.causal

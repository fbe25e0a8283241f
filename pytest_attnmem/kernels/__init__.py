"""The bundled attention kernels: reference implementations, each with its memory model.

One file a kernel, and the rows here are all they share. Adding a kernel is a file and a row; the
tests over ``KERNELS`` pick it up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..model import KernelModel
from . import flash, linear, linear_causal, sdpa, standard

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Kernel:
    """One row of the table."""

    name: str
    attention: Callable[..., torch.Tensor]
    """``(q, k, v, *, causal, …) → out``, all [B, H, N, d]."""
    model: KernelModel
    causal: tuple[bool, ...] = (False, True)
    """The values of ``causal`` that it knows."""
    mask: bool = False
    """Whether it takes ``mask``, broadcastable to [B, H, N, M]: True marks what is seen, numbers
    are added. The symbol ``mask`` of its model is a bool mask's number of elements, or 0."""
    gqa: bool = False
    """Whether k and v may have fewer heads than q."""
    equal_head_dims: bool = False
    """Whether v must be as wide as q and k."""
    softmax: bool = True
    """Whether it computes softmax attention, as the standard kernel does."""
    devices: tuple[str, ...] = ("cpu", "cuda")
    """Device types that it runs on."""


KERNELS = (
    Kernel("standard", standard.attention, standard.MODEL, mask=True),
    Kernel("flash", flash.attention, flash.MODEL),
    Kernel("sdpa-flash", sdpa.flash, sdpa.FLASH, equal_head_dims=True),
    Kernel("sdpa-efficient", sdpa.efficient, sdpa.EFFICIENT, devices=("cuda",)),
    Kernel("sdpa-math", sdpa.math, sdpa.MATH, mask=True),
    Kernel("linear", linear.attention, linear.MODEL, causal=(False,), softmax=False),
    Kernel(
        "linear-causal", linear_causal.attention, linear_causal.MODEL, causal=(True,), softmax=False
    ),
)

"""The bundled attention kernels: reference implementations, each with its memory model.

One file a kernel, and the rows here are all they share. Adding a kernel is a file and a row; the
tests over ``KERNELS`` pick it up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..budgets.memory_model import KernelModel
from . import (
    block_sparse,
    checkpointed,
    chunked,
    flash,
    flash_triton,
    grouped_query,
    linear,
    linear_causal,
    linear_chunked,
    linear_recurrent,
    linear_scan,
    sdpa,
    sliding_window,
    standard,
    strided,
)

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
    sparse: bool = False
    """Whether a query sees only some of the keys, by a pattern."""
    devices: tuple[str, ...] = ("cpu", "cuda")
    """Device types that it runs on."""


KERNELS = (
    Kernel("standard", standard.attention, standard.MODEL, mask=True),
    Kernel("checkpointed", checkpointed.attention, checkpointed.MODEL, mask=True),
    Kernel("chunked", chunked.attention, chunked.MODEL, mask=True),
    Kernel("flash", flash.attention, flash.MODEL),
    Kernel("flash-triton", flash_triton.attention, flash_triton.MODEL, devices=("cuda",)),
    Kernel("grouped-query", grouped_query.attention, grouped_query.MODEL, mask=True, gqa=True),
    Kernel("sdpa-flash", sdpa.flash, sdpa.FLASH, equal_head_dims=True),
    Kernel("sdpa-efficient", sdpa.efficient, sdpa.EFFICIENT, devices=("cuda",)),
    Kernel("sdpa-math", sdpa.math, sdpa.MATH, mask=True),
    Kernel(
        "sliding-window", sliding_window.attention, sliding_window.MODEL, mask=True, sparse=True
    ),
    Kernel("strided", strided.attention, strided.MODEL, mask=True, sparse=True),
    Kernel("block-sparse", block_sparse.attention, block_sparse.MODEL),
    Kernel("linear", linear.attention, linear.MODEL, causal=(False,), softmax=False),
    Kernel(
        "linear-causal", linear_causal.attention, linear_causal.MODEL, causal=(True,), softmax=False
    ),
    Kernel(
        "linear-chunked",
        linear_chunked.attention,
        linear_chunked.MODEL,
        causal=(True,),
        softmax=False,
    ),
    Kernel(
        "linear-recurrent",
        linear_recurrent.attention,
        linear_recurrent.MODEL,
        causal=(True,),
        softmax=False,
    ),
    Kernel("linear-scan", linear_scan.attention, linear_scan.MODEL, causal=(True,), softmax=False),
)

"""The attentions that a sweep compares: textbook attention, bundled kernels, one rank of a ring."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ..budgets.memory_model import KernelModel
from ..kernels import Kernel
from ..kernels.registry import find_named, kernels
from . import eager_attention

_RING: Final = re.compile(r"ring:([1-9][0-9]{0,5})")


@dataclass(frozen=True, slots=True)
class Candidate:
    """An attention that a sweep compares."""

    name: str
    attend: Callable[..., Any] | None
    """``(q, k, v, mask, causal) → out``; None for a ring, which needs other processes."""
    model: KernelModel | None = None
    causal: tuple[bool, ...] = (False, True)
    devices: tuple[str, ...] = ("cpu", "cuda")
    masked: bool = False
    """True if causality is a mask, made once, instead of an option."""
    ranks: int = 1
    """The processes that share the sequence; memory is always the memory of one process."""


def candidate_named(name: str) -> Candidate:
    """Returns the attention of that name: ``textbook``, a bundled kernel, or ``ring:4``.

    Raises:
        BudgetError: no attention has the name.
    """
    ring = _RING.fullmatch(name)
    if ring:
        return _ring(name, int(ring[1]))
    bundled = {kernel.name: kernel for kernel in kernels()}
    candidates = {"textbook": Candidate("textbook", _textbook, masked=True)}
    candidates |= {name: _bundled(name, kernel) for name, kernel in bundled.items()}
    return find_named(name, {**candidates, "ring:4": _ring("ring:4", 4)})


def _ring(name: str, ranks: int) -> Candidate:
    from ..kernels.ring import MODEL

    return Candidate(name, None, MODEL, ranks=ranks)


def _bundled(name: str, kernel: Kernel) -> Candidate:
    attend = partial(_run, kernel.attention)
    return Candidate(name, attend, kernel.model, kernel.causal, kernel.devices)


def _textbook(q: Any, k: Any, v: Any, mask: Any, causal: bool) -> Any:
    return eager_attention.attention(q, k, v, mask)


def _run(attention: Callable[..., Any], q: Any, k: Any, v: Any, mask: Any, causal: bool) -> Any:
    return attention(q, k, v, causal=causal)

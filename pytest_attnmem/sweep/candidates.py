"""What can be swept: the textbook's attention, the bundled kernels, and one rank of a ring."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ..budgets.memory_model import KernelModel
from ..errors import BudgetError
from ..units import shown
from . import eager_attention

if TYPE_CHECKING:
    from ..kernels import Kernel

_RING = re.compile(r"ring:([1-9][0-9]{0,5})")


@dataclass(frozen=True, slots=True)
class Attention:
    """One of those that a sweep compares."""

    name: str
    attend: Callable[..., Any] | None
    """``(q, k, v, mask, causal) → out``; ``None``: it needs other processes, and has a model."""
    model: KernelModel | None = None
    causal: tuple[bool, ...] = (False, True)
    devices: tuple[str, ...] = ("cpu", "cuda")
    masked: bool = False
    """Whether causality comes to it as a mask, made once."""
    ranks: int = 1
    """How many processes share the sequence; all sizes of memory are one's."""


def attention_of(name: str) -> Attention:
    """The attention of that name.

    Raises:
        BudgetError: there is none.
    """
    from ..kernels import KERNELS, ring

    if name == "standard":
        return Attention(name, _textbook, masked=True)
    if match := _RING.fullmatch(name):
        return Attention(name, None, ring.MODEL, ranks=int(match[1]))
    bundled = {kernel.name: kernel for kernel in KERNELS}
    bundled["standard-fused"] = bundled.pop("standard")
    if name in bundled:
        return _bundled(name, bundled[name])
    names = ["standard", *bundled, "ring:4"]
    close = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise BudgetError(f"unknown kernel {shown(name)}; {hint}expected one of {', '.join(names)}")


def _bundled(name: str, kernel: Kernel) -> Attention:
    attend = partial(_run, kernel.attention)
    return Attention(name, attend, kernel.model, kernel.causal, kernel.devices)


def _textbook(q: Any, k: Any, v: Any, mask: Any, causal: bool) -> Any:
    return eager_attention.attention(q, k, v, mask)


def _run(attention: Callable[..., Any], q: Any, k: Any, v: Any, mask: Any, causal: bool) -> Any:
    return attention(q, k, v, causal=causal)

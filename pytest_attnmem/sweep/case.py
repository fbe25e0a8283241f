"""A case of a sweep, an attention at given sizes, and the program that is measured at it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import Any, Final

from ..budgets.memory_model import KernelModel
from ..errors import BudgetError
from ..kernels import Kernel
from ..kernels.registry import find_named, kernels
from ..symbols.attention_shape import AttentionShape, Source, gather
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


#: The stages of the program, in order, each with the name that messages give to it. Tensors alive
#: at the peak are grouped by stage.
STAGES = MappingProxyType(
    {
        "inputs": "inputs",
        "warm-up": "forward pass",
        "warm-up backward": "backward pass",
        "copies": "copies",
        "forward": "forward pass",
        "upstream gradient": "upstream gradient",
        "backward": "backward pass",
    }
)


@dataclass(frozen=True, slots=True)
class SweepCase:
    """An attention at given sizes."""

    attention: Candidate
    B: int
    H: int
    N: int
    d: int
    dtype: Any
    causal: bool
    backward: bool

    def __str__(self) -> str:
        causal = " causal" if self.causal else ""
        return f"{self.attention.name}{causal} N={self.N} d={self.d}"

    @property
    def shape(self) -> AttentionShape:
        """The symbols of the model's formulas; N counts the positions of all ranks of a ring."""
        known = {"B": self.B, "H": self.H, "N": self.N, "d": self.d, "dtype": self.dtype}
        known |= {"causal": int(self.causal), "R": self.attention.ranks}
        return gather([Source("the sweep", known)])

    @property
    def plan_parts(self) -> int:
        """The bytes of q, which are those of k and of v, on one rank."""
        elements: int = self.B * self.H * (self.N // self.attention.ranks) * self.d
        return elements * int(self.dtype.itemsize)

    def at(self, N: int) -> SweepCase:
        """Returns the same case at another length."""
        return replace(self, N=N)


def sweep_cases(
    attentions: Sequence[Candidate],
    widths: Sequence[int],
    lengths: Sequence[int],
    *,
    batch: int,
    heads: int,
    dtype: Any,
    causal: bool | None,
    backward: bool,
) -> Iterator[SweepCase]:
    """Yields all cases of a sweep in the order of its rows.

    An attention is causal where it can be, unless ``causal`` says otherwise.

    Raises:
        BudgetError: an attention does not accept ``causal``.
    """
    for attention, d, N in product(attentions, widths, lengths):
        is_causal = True in attention.causal if causal is None else causal
        if is_causal not in attention.causal:
            option = "--causal" if causal else "--no-causal"
            kind = "not causal" if causal else "causal"
            raise BudgetError(f"{attention.name} is {kind}: leave out {option}")
        yield SweepCase(attention, batch, heads, N, d, dtype, is_causal, backward)


def program(case: SweepCase, device: str, begin: Callable[[str], None]) -> None:
    """Runs the steps of the reference benchmark before its measurement, and the measured pass.

    The steps are: inputs and the mask; the copies that a warm-up leaves behind, with their
    gradients; copies, the forward pass on them, an upstream gradient as large as the output, and
    the backward pass. ``begin`` is called with the name of each stage.
    """
    import torch

    def copies() -> list[Any]:
        return [tensor.clone().requires_grad_() for tensor in qkv]

    def attend(tensors: list[Any]) -> Any:
        return _attend(case, tensors, mask)

    begin("inputs")
    qkv, mask = _inputs(case, device)
    if not case.backward:
        begin("forward")
        with torch.no_grad():
            attend(qkv)
        return
    begin("warm-up")
    warm = copies()
    out = attend(warm)
    begin("warm-up backward")
    out.backward(torch.randn_like(out))
    del out
    begin("copies")
    tested = copies()
    begin("forward")
    out = attend(tested)
    begin("upstream gradient")
    gradient = torch.randn_like(out)
    begin("backward")
    out.backward(gradient)


def timed_passes(
    case: SweepCase, device: str
) -> tuple[Callable[[], Any], Callable[[], Callable[[], None]]]:
    """Returns a forward pass without gradients, and a function that prepares a backward pass."""
    import torch

    qkv, mask = _inputs(case, device)

    def forward() -> Any:
        with torch.no_grad():
            return _attend(case, qkv, mask)

    def prepare_backward() -> Callable[[], None]:
        out = _attend(case, [tensor.clone().requires_grad_() for tensor in qkv], mask)
        gradient = torch.randn_like(out)
        return lambda: out.backward(gradient)

    return forward, prepare_backward


def _inputs(case: SweepCase, device: str) -> tuple[list[Any], Any]:
    """Returns q, k and v [B, H, N, d], and the mask of an attention that takes one."""
    import torch

    shape = (case.B, case.H, case.N, case.d)
    qkv = [torch.randn(shape, dtype=case.dtype, device=device) for _ in range(3)]
    masked = case.causal and case.attention.masked
    return qkv, eager_attention.causal_mask(case.N, device) if masked else None


def _attend(case: SweepCase, tensors: Sequence[Any], mask: Any) -> Any:
    if case.attention.attend is None:
        raise BudgetError(f"{case.attention.name} runs in processes of its own")
    return case.attention.attend(*tensors, mask, case.causal)

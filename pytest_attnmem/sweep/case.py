"""A case of a sweep, an attention at given sizes, and the program that is measured at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from types import MappingProxyType
from typing import Any

from ..errors import BudgetError
from ..symbols.attention_shape import AttentionShape, Source, gather
from . import eager_attention
from .candidates import Candidate

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
    def tensor_bytes(self) -> int:
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

    def inputs() -> list[Any]:
        shape = (case.B, case.H, case.N, case.d)
        return [torch.randn(shape, dtype=case.dtype, device=device) for _ in range(3)]

    def copies() -> list[Any]:
        return [tensor.clone().requires_grad_() for tensor in qkv]

    def attend(tensors: list[Any]) -> Any:
        return _attend(case, tensors, mask)

    begin("inputs")
    qkv = inputs()
    mask = _mask(case, device)
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

    shape = (case.B, case.H, case.N, case.d)
    qkv = [torch.randn(shape, dtype=case.dtype, device=device) for _ in range(3)]
    mask = _mask(case, device)

    def forward() -> Any:
        with torch.no_grad():
            return _attend(case, qkv, mask)

    def prepare_backward() -> Callable[[], None]:
        out = _attend(case, [tensor.clone().requires_grad_() for tensor in qkv], mask)
        gradient = torch.randn_like(out)
        return lambda: out.backward(gradient)

    return forward, prepare_backward


def _mask(case: SweepCase, device: str) -> Any:
    masked = case.causal and case.attention.masked
    return eager_attention.causal_mask(case.N, device) if masked else None


def _attend(case: SweepCase, tensors: Sequence[Any], mask: Any) -> Any:
    if case.attention.attend is None:
        raise BudgetError(f"{case.attention.name} runs in processes of its own")
    return case.attention.attend(*tensors, mask, case.causal)

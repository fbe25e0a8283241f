"""A peak told apart into components: who held what, and how it grows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from .measurement import Held
from .shape import SYMBOLS
from .tensors import dimensions

#: What a component is called that is none of the program's tensors.
WORKSPACES: Final = "workspaces, forward and backward"
SCRATCH: Final = "scratch inside kernels"
UNSEEN: Final = "not seen tensor by tensor"

_LENGTHS: Final = frozenset({"N", "M"})
_WIDTHS: Final = frozenset({"d", "dv"})
_SCRATCH_MARK: Final = "(scratch)"
_MADE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "inputs": "inputs q, k, v",
        "copies": "copies of q, k, v",
        "upstream gradient": "upstream gradient dO",
    }
)
_SUPERSCRIPTS: Final = str.maketrans("23456789", "²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class Component:
    """A part of a peak."""

    name: str
    nbytes: int
    count: int
    """How many tensors it is."""
    growth: str
    """``O(B·H·N²)``, as its largest tensor; empty where no symbol's size is in it."""
    formula: str
    """Its bytes, as a budget is written; a number where its tensors have no symbols for sizes."""


class _Tensor(NamedTuple):
    held: Held
    dims: tuple[str, ...]
    """``("B", "H", "N", "d")``; empty where its sizes are none of the symbols'."""

    @property
    def monomial(self) -> str:
        """``B*H*N^2``."""
        return "*".join(
            name if times == 1 else f"{name}^{times}"
            for name in SYMBOLS
            if (times := self.dims.count(name))
        )


def decompose(
    alive: Mapping[str, Iterable[Held]],
    symbols: Mapping[str, int],
    *,
    peak_bytes: int | None = None,
    workspace_bytes: int = 0,
) -> tuple[Component, ...]:
    """The components of a peak, largest first; they sum to it exactly.

    ``alive`` has the tensors at the peak by the stage that made them: ``inputs``, ``warm-up`` (and
    other stages that begin so), ``copies``, ``forward``, ``upstream gradient``, ``backward``; or
    ``""`` where that is not known, and the operator alone tells. Within a stage they are in the
    order of their making. ``symbols`` give sizes their names, but for sizes of 1. With
    ``peak_bytes``, which counts the ``workspace_bytes`` in, what is missing to it is a component.
    """
    telling = {name: size for name, size in symbols.items() if size != 1}
    parts: dict[str, list[_Tensor]] = {}
    for stage, tensors in alive.items():
        placed = [_placed(held, telling) for held in tensors]
        placed = [_as_its_output(tensor, placed) for tensor in placed]
        last = _last_weights(placed)
        for tensor in placed:
            name = _name(stage, tensor, tensor is last)
            parts.setdefault(name, []).append(tensor)
    components = [_component(name, tensors) for name, tensors in parts.items()]
    if workspace_bytes:
        components.append(_flat(WORKSPACES, workspace_bytes, 2))
    missing = 0 if peak_bytes is None else peak_bytes - sum(part.nbytes for part in components)
    if missing:
        components.append(_flat(UNSEEN, missing, 0))
    return tuple(sorted(components, key=lambda part: -part.nbytes))


def _placed(held: Held, symbols: Mapping[str, int]) -> _Tensor:
    text = dimensions(held.shape, symbols)
    return _Tensor(held, tuple(text.split("·")) if text else ())


def _as_its_output(tensor: _Tensor, others: Iterable[_Tensor]) -> _Tensor:
    """Scratch that is as large as what its operator makes grows as that does."""
    if not _scratch(tensor):
        return tensor
    for other in others:
        same = other.held.nbytes == tensor.held.nbytes and other.dims
        if same and tensor.held.op == f"{other.held.op} {_SCRATCH_MARK}":
            return _Tensor(replace(tensor.held, shape=other.held.shape), other.dims)
    return tensor


def _last_weights(tensors: Iterable[_Tensor]) -> _Tensor | None:
    """Of the score matrices that a forward pass keeps, the one that softmax ended in."""
    weights = [
        tensor
        for tensor in tensors
        if _lengths(tensor) == 2 and not _wide(tensor) and not _scratch(tensor)
    ]
    named = [tensor for tensor in weights if "softmax" in tensor.held.op]
    divided = [tensor for tensor in weights if tensor.held.op == "div"]
    return (named or divided)[-1] if named or divided else None


def _lengths(tensor: _Tensor) -> int:
    return sum(name in _LENGTHS for name in tensor.dims)


def _wide(tensor: _Tensor) -> bool:
    return not _WIDTHS.isdisjoint(tensor.dims)


def _scratch(tensor: _Tensor) -> bool:
    return tensor.held.op.endswith(_SCRATCH_MARK)


def _is_mask(stage: str, tensor: _Tensor) -> bool:
    if _lengths(tensor) != 2 or _wide(tensor):
        return False
    return stage == "inputs" or tensor.held.dtype == "bool" or len(tensor.held.shape) == 2


def _name(stage: str, tensor: _Tensor, last: bool) -> str:
    lengths, wide = _lengths(tensor), _wide(tensor)
    if _scratch(tensor):
        return SCRATCH
    if _is_mask(stage, tensor):
        return "mask"
    if stage.startswith("warm-up"):
        return "copies of a warm-up, and their gradients"
    if stage in _MADE:
        return _MADE[stage]
    if stage == "backward":
        rowwise = wide and lengths == 1
        return "gradients dQ, dK, dV" if rowwise else "intermediate gradients"
    if lengths == 2 and not wide:
        return "probabilities" if last else "scores"
    if lengths == 1 and wide:
        return "output" if stage else "output and gradients"
    return "rows: maxima, sums" if lengths == 1 else "other tensors"


def _component(name: str, tensors: list[_Tensor]) -> Component:
    nbytes = sum(tensor.held.nbytes for tensor in tensors)
    largest = max(tensors, key=lambda tensor: (tensor.held.nbytes, tensor.monomial))
    product = largest.monomial.replace("*", "·").replace("^", "").translate(_SUPERSCRIPTS)
    growth = f"O({product})" if product else ""
    factors: Counter[str] = Counter()
    for tensor in tensors:
        itemsize, rest = divmod(tensor.held.nbytes, math.prod(tensor.held.shape) or 1)
        if tensor.monomial and not rest:
            factors[tensor.monomial] += itemsize
        else:
            factors[""] += tensor.held.nbytes
    terms = [
        "*".join(part for part in (str(factor) if factor > 1 else "", monomial) if part) or "1"
        for monomial, factor in factors.items()
    ]
    return Component(name, nbytes, len(tensors), growth, " + ".join(terms))


def _flat(name: str, nbytes: int, count: int) -> Component:
    return Component(name, nbytes, count, "O(1)", str(nbytes))

"""The components of a peak: groups of tensors, with their bytes and their growth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from ..formulas.polynomial import Polynomial, expand
from .held import SCRATCH_SUFFIX, Held
from .tensor_groups import ROLES

#: The names of components that are not tensors of the program.
WORKSPACES: Final = "workspaces, forward and backward"
SCRATCH: Final = "scratch inside kernels"
UNSEEN: Final = "not seen tensor by tensor"

_LENGTHS: Final = frozenset({"N", "M"})
_WIDTHS: Final = frozenset({"d", "dv"})
_WARM_UP: Final = "copies of a warm-up, and their gradients"
_MADE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "inputs": "inputs q, k, v",
        "warm-up": _WARM_UP,
        "warm-up backward": _WARM_UP,
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
    """The number of tensors."""
    growth: str
    """``O(B·H·N²)``, the term of the highest degree; empty where no symbol is in it."""
    formula: str
    """The bytes as a budget is written; a number where the tensors have no symbols for sizes."""

    @property
    def has_tensors(self) -> bool:
        """Returns False for the bytes that no tensor accounts for."""
        return self.count > 0


def decompose(
    alive: Mapping[str, Iterable[Held]],
    *,
    peak_bytes: int | None = None,
    workspace_bytes: int = 0,
) -> tuple[Component, ...]:
    """Returns the components of a peak, largest first; they sum to it exactly.

    ``alive`` has the tensors at the peak by the stage that made them: ``inputs``, ``warm-up``,
    ``warm-up backward``, ``copies``, ``forward``, ``upstream gradient``, ``backward``; or ``""``
    where the stage is not known, and a component is named by its operator. Within a stage the
    tensors are in the order of their allocation. With ``peak_bytes``, which includes the
    ``workspace_bytes``, the bytes that no tensor accounts for are a component.
    """
    parts: dict[str, list[Held]] = {}
    for stage, tensors in alive.items():
        given = [*tensors]
        placed = [_as_its_output(tensor, given) for tensor in given]
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


def _as_its_output(tensor: Held, others: Iterable[Held]) -> Held:
    """Returns scratch with the shape of its operator's output, if both are equally large."""
    if not tensor.scratch:
        return tensor
    for other in others:
        same = other.nbytes == tensor.nbytes and other.dims
        if same and tensor.op == other.op + SCRATCH_SUFFIX:
            return replace(tensor, shape=other.shape, dims=other.dims)
    return tensor


def _last_weights(tensors: Iterable[Held]) -> Held | None:
    """Returns the output of softmax among the score matrices that a forward pass keeps."""
    weights = [
        tensor
        for tensor in tensors
        if _lengths(tensor) == 2 and not _wide(tensor) and not tensor.scratch
    ]
    named = [tensor for tensor in weights if "softmax" in tensor.op]
    divided = [tensor for tensor in weights if tensor.op == "div"]
    return (named or divided)[-1] if named or divided else None


def _lengths(tensor: Held) -> int:
    return sum(name in _LENGTHS for name in tensor.dims)


def _wide(tensor: Held) -> bool:
    return not _WIDTHS.isdisjoint(tensor.dims)


def _is_mask(stage: str, tensor: Held) -> bool:
    if _lengths(tensor) != 2 or _wide(tensor):
        return False
    return stage == "inputs" or tensor.dtype == "bool" or len(tensor.shape) == 2


def _name(stage: str, tensor: Held, last: bool) -> str:
    if tensor.scratch:
        return SCRATCH
    if not stage:
        return _made_by(tensor)
    lengths, wide = _lengths(tensor), _wide(tensor)
    if _is_mask(stage, tensor):
        return "mask"
    if stage in _MADE:
        return _MADE[stage]
    if stage == "backward":
        rowwise = wide and lengths == 1
        return "gradients dQ, dK, dV" if rowwise else "intermediate gradients"
    if lengths == 2 and not wide:
        return "probabilities" if last else "scores"
    if lengths == 1 and wide:
        return "output"
    return "rows: maxima, sums" if lengths == 1 else "other tensors"


def _made_by(tensor: Held) -> str:
    """Returns ``softmax [B, H, N, N]``, or the role of the tensor."""
    if tensor.role in ROLES:
        return ROLES[tensor.role]
    if not tensor.dtype:
        return tensor.op
    return f"{tensor.op} [{', '.join(tensor.dims or map(str, tensor.shape))}]"


def _component(name: str, tensors: list[Held]) -> Component:
    total, rest = Polynomial.constant(0), 0
    for tensor in tensors:
        size = _elements(tensor)
        itemsize, odd = divmod(tensor.nbytes, math.prod(tensor.shape) or 1)
        if size is None or odd:
            rest += tensor.nbytes
        else:
            total = total + size.scaled(itemsize)
    grown = [monomial for monomial, _ in total.ordered() if monomial]
    text = str(Polynomial({grown[0]: Fraction(1)})) if grown else ""
    product = text.replace("*", "·").replace("^", "").translate(_SUPERSCRIPTS)
    formula = str(total + Polynomial.constant(rest))
    nbytes = sum(tensor.nbytes for tensor in tensors)
    return Component(name, nbytes, len(tensors), f"O({product})" if product else "", formula)


def _elements(tensor: Held) -> Polynomial | None:
    """Returns the number of elements in symbols; ``None`` where the dimensions are not known."""
    if not tensor.dims:
        return None
    total = Polynomial.constant(1)
    for dim in tensor.dims:
        total = total * expand(dim)
    return total


def _flat(name: str, nbytes: int, count: int) -> Component:
    return Component(name, nbytes, count, "O(1)", str(nbytes))

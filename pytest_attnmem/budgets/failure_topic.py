"""The topic of ``attnmem explain`` that a failure belongs to."""

from __future__ import annotations

from enum import Enum
from math import prod
from typing import Final

from ..measurement.held import SAVED, Held
from ..measurement.tensor_groups import Group, grouped
from .verdict import Outcome, Verdict

#: Operators that copy what is there already, and those that make one type from another.
_COPIES: Final = frozenset(
    {"cat", "clone", "constant_pad_nd", "copy", "gather", "index", "index_select", "repeat"}
    | {"repeat_interleave", "stack", "view_copy"}
)
_CASTS: Final = frozenset({"to_copy", "_to_copy"})
_LENGTHS: Final = frozenset("NM")
_OF_TRAINING: Final = frozenset({"parameter", "gradient", "optimizer", SAVED})


class Topic(Enum):
    """A section of ``attnmem explain``."""

    PARTS = "parts"
    SCORES = "scores"
    MASK = "mask"
    COPY = "copy"
    DTYPE = "dtype"
    TEMPORARIES = "temporaries"
    SAVED = "saved"
    RETAINED = "retained"
    SCRATCH = "scratch"
    OUT_OF_MEMORY = "out-of-memory"
    NOT_ENFORCED = "not-enforced"


def topic(verdict: Verdict) -> Topic:
    """Returns the topic of a verdict: what failed, or what the largest of its tensors is."""
    measurement, budget = verdict.measurement, verdict.budget
    if verdict.outcome is Outcome.NOT_ENFORCED:
        return Topic.NOT_ENFORCED
    if measurement is None or budget is None:
        return Topic.PARTS
    if measurement.out_of_memory is not None:
        return Topic.OUT_OF_MEMORY
    held = verdict.more or measurement.held
    if budget.metric == "retained":
        return Topic.SAVED if any(_is_saved(one) for one in held) else Topic.RETAINED
    value = measurement.value(budget.metric)
    limit = budget.limit_bytes if budget.exact and not verdict.regression else None
    below = value is not None and limit is not None and value < limit
    return Topic.PARTS if below or not held else _of_tensors(held)


def _of_tensors(held: tuple[Held, ...]) -> Topic:
    """Returns the topic of the largest tensors."""
    groups = grouped(held)
    largest = groups[0].held
    if largest.scratch:
        return Topic.SCRATCH
    if any(one.held.dtype == "bool" and _covers(one, largest) for one in groups):
        return Topic.MASK
    if largest.op in _CASTS:
        return Topic.DTYPE
    if largest.op in _COPIES:
        return Topic.COPY
    if _of_all_pairs(largest):
        alike = sum(one.count for one in groups if _of_all_pairs(one.held))
        return Topic.SCORES if alike < 3 else Topic.TEMPORARIES
    if largest.holder and not _is_saved(largest):
        return Topic.RETAINED
    of_layers = "*" in largest.module  # a tensor of each layer, which only a backward pass frees
    kept = of_layers or _is_saved(largest) or largest.role in _OF_TRAINING
    return Topic.SAVED if kept else Topic.TEMPORARIES


def _is_saved(held: Held) -> bool:
    return held.role == SAVED or held.holder.startswith("saved by ")


def _covers(group: Group, tensor: Held) -> bool:
    return prod(group.held.shape) >= prod(tensor.shape)


def _of_all_pairs(held: Held) -> bool:
    """Returns True for a tensor with a number for each pair of a query and a key."""
    if held.dims:
        return len(held.dims) > 1 and {*held.dims[-2:]} <= _LENGTHS
    return len(held.shape) > 2 and held.shape[-2] == held.shape[-1]

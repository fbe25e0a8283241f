"""The sizes of what an index with tensors selects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def selected(shape: Sequence[int], indices: Sequence[Any]) -> tuple[int, ...] | None:
    """Returns the sizes of ``x[indices]``; None if they depend on values, or the index is wrong.

    The sizes of the places stand where they are, if they are next to each other, or else in front
    (``TensorAdvancedIndexing.cpp``).
    """
    places = [at for at, index in enumerate(indices) if index is not None]
    tensors = [indices[at] for at in places]
    masks = any(tensor.dtype in (torch.bool, torch.uint8) for tensor in tensors)
    if masks or not places or len(indices) > len(shape):
        return None
    first = tuple(tensors[0].shape)
    try:
        common = first if len(tensors) == 1 else tuple(torch.broadcast_shapes(*_shapes(tensors)))
    except RuntimeError:
        return None
    rest = [size for at, size in enumerate(shape) if at not in places]
    together = places[-1] - places[0] == len(places) - 1
    before = places[0] if together else 0
    return (*rest[:before], *common, *rest[before:])


def is_broadcast(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Returns True if a tensor of one shape can be expanded to the other; ones in front drop."""
    extra = len(shape) - len(to)
    if extra > 0:
        if any(size != 1 for size in shape[:extra]):
            return False
        shape = shape[extra:]
    return all(mine in (1, its) for mine, its in zip(reversed(shape), reversed(to), strict=False))


def _shapes(tensors: Sequence[Any]) -> list[Sequence[int]]:
    return [tensor.shape for tensor in tensors]

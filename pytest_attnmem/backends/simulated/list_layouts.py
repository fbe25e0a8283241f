"""The strides of results of operators over lists of tensors, as CUDA's kernels choose them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .scratch.strides import Operand, dense_without_overlap, kept_strides, result_strides


def operand(tensor: torch.Tensor) -> Operand:
    """Returns a tensor's shape and strides."""
    return Operand(tensor.shape, tensor.stride())


def of_lists(args: Sequence[Any], out: Any) -> Any:
    """Returns the results of an operator over lists of tensors.

    Where the tensors of each place have one layout, one kernel makes all results, which are like
    those of the first list; else each place has an operator of its own (ForeachUtils.h).
    """
    lists = [value for value in args if isinstance(value, (list, tuple))]
    lists = [value for value in lists if value and isinstance(value[0], torch.Tensor)]
    if not isinstance(out, list) or any(len(value) != len(out) for value in lists):
        return out
    places = [[operand(tensor) for tensor in place] for place in zip(*lists, strict=True)]
    if any(one.shape != operands[0].shape for one, operands in zip(out, places, strict=True)):
        return out  # norms, say
    alike = all(map(_are_alike, places))
    return [
        restrided(one, kept_strides(*operands[0]) if alike else result_strides(one.shape, operands))
        for one, operands in zip(out, places, strict=True)
    ]


def _are_alike(operands: Sequence[Operand]) -> bool:
    """Returns True for tensors without gaps whose strides differ at most where they are free."""
    steps = [
        [step for size, step in zip(*operand, strict=True) if size != 1] for operand in operands
    ]
    same = len({operand.shape for operand in operands}) == 1 and len({*map(tuple, steps)}) == 1
    return same and all(dense_without_overlap(*operand) for operand in operands)


def restrided(out: Any, strides: tuple[int, ...] | None) -> Any:
    """Returns a result without data with other strides."""
    if strides is None or strides == out.stride() or out.is_conj() or out.is_neg():
        return out
    return torch.empty_strided(out.shape, strides, dtype=out.dtype, device="meta")

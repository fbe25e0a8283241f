"""The strides that PyTorch's kernels give a new result.

Sources: ``fast_set_up``, ``reorder_dimensions`` and ``allocate_or_resize_outputs`` of
aten/src/ATen/TensorIterator.cpp, ``infer_dense_strides`` of aten/src/ATen/ExpandUtils.cpp, and
c10/core/TensorImpl.cpp. Strides are in elements, unless a caller gives bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Final, NamedTuple

#: The dimensions of a tensor [N, C, H, W], the fastest first, as ``torch.channels_last`` has them.
_CHANNELS_LAST: Final = (1, 3, 2, 0)


class Operand(NamedTuple):
    """An operand of a pointwise operator."""

    shape: Sequence[int]
    strides: Sequence[int]


#: A number, which is a tensor without dimensions.
NUMBER: Final = Operand((), ())


def result_strides(shape: Sequence[int], operands: Sequence[Operand]) -> tuple[int, ...]:
    """Returns the strides of a pointwise result of that shape."""
    if all(tuple(operand.shape) == tuple(shape) for operand in operands):
        shared = _shared_strides(shape, operands)
        if shared is not None:
            return shared
    rows = [_broadcast(operand, shape) for operand in operands]
    return packed(shape, reorder_dimensions(shape, rows, 0))


def kept_strides(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Returns the strides of a tensor that ``empty_like`` with ``preserve_format`` makes."""
    if dense_without_overlap(shape, strides):
        return tuple(strides)
    return packed(shape, reorder_dimensions(shape, [strides], 0))


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the strides of a contiguous tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def dense_without_overlap(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Returns True if the elements fill a range of memory, each once, in any order."""
    pairs = zip(strides, shape, strict=True)
    return prod(shape) == 0 or _follow(sorted(pair for pair in pairs if pair[1] != 1))


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Returns True if the tensor is contiguous; dimensions of size 1 may have any stride."""
    return is_packed(Operand(shape, strides), reversed(range(len(shape))))


def reorder_dimensions(
    sizes: Sequence[int], operands: Sequence[Sequence[int]], outputs: int
) -> list[int]:
    """Returns the order of dimensions, the fastest first.

    An insertion sort allows ambiguous comparisons. Each operand is a row of strides; the first
    ``outputs`` of them are of outputs that exist.
    """
    order = list(range(len(sizes)))[::-1]
    for right in range(1, len(order)):
        at = right
        for left in reversed(range(right)):
            verdict = _compare(order[left], order[at], sizes, operands, outputs)
            if verdict > 0:
                order[left], order[at] = order[at], order[left]
                at = left
            elif verdict < 0:
                break
    return order


def _compare(
    a: int, b: int, sizes: Sequence[int], operands: Sequence[Sequence[int]], outputs: int
) -> int:
    """Returns 1 if dimension ``a`` goes behind ``b``, -1 if before it, 0 if that is ambiguous."""
    for index, strides in enumerate(operands):
        at_a, at_b = strides[a], strides[b]
        if index < outputs and (at_a == 0) != (at_b == 0):
            return 1 if at_b == 0 else -1
        if at_a == 0 or at_b == 0:
            continue
        if at_a != at_b:
            return -1 if at_a < at_b else 1
        if sizes[a] > sizes[b]:
            return 1
    return 0


def _shared_strides(shape: Sequence[int], operands: Sequence[Operand]) -> tuple[int, ...] | None:
    """Returns the strides of a result whose operands have one layout; None if they do not."""
    rank = len(shape)
    for order in ([*reversed(range(rank))], _CHANNELS_LAST):
        if len(order) == rank and all(is_packed(operand, order) for operand in operands):
            return packed(shape, order)
    strides = {tuple(operand.strides) for operand in operands}
    dense = all(dense_without_overlap(*operand) for operand in operands)
    return strides.pop() if dense and len(strides) == 1 else None


def is_packed(operand: Operand, order: Iterable[int]) -> bool:
    """Returns True if the elements lie side by side in that order of dimensions."""
    pairs = ((operand.strides[dim], operand.shape[dim]) for dim in order)
    return prod(operand.shape) == 0 or _follow(pair for pair in pairs if pair[1] != 1)


def _follow(strides_and_sizes: Iterable[tuple[int, int]]) -> bool:
    """Returns True if each stride is the number of elements of the dimensions before it."""
    expected = 1
    for stride, size in strides_and_sizes:
        if stride != expected:
            return False
        expected *= size
    return True


def _broadcast(operand: Operand, shape: Sequence[int]) -> list[int]:
    missing = len(shape) - len(operand.shape)
    sizes = zip(operand.shape, shape[missing:], operand.strides, strict=True)
    return [0] * missing + [0 if own == 1 != size else stride for own, size, stride in sizes]


def packed(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Returns strides without gaps, in an order of dimensions, the fastest first."""
    if [*order] == [*reversed(range(len(shape)))]:
        return contiguous_strides(shape)
    strides, step = [0] * len(shape), 1
    for dim in order:
        strides[dim] = step
        step *= shape[dim]
    return tuple(strides)

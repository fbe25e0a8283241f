"""How PyTorch orders and joins the dimensions of a reduction (aten/src/ATen/TensorIterator.cpp)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

_LARGEST: Final = 2**31 - 1
_ALIGNED: Final = 4  # elements that one load takes at most
_HELD: Final = 2**40  # no device holds more bytes; a loop over more has too many parts to list


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction's loop: the fastest dimension first, strides in bytes, 0 where out is reduced."""

    shape: tuple[int, ...]
    out: tuple[int, ...]
    input: tuple[int, ...]
    out_itemsize: int
    itemsize: int
    offset: int  # of the input's first element from an aligned address, in bytes
    also: tuple[tuple[int, ...], ...] = ()  # strides of further outputs

    @property
    def numel(self) -> int:
        """Elements read."""
        return prod(self.shape)

    @property
    def reduced(self) -> int:
        """How many dimensions are reduced; they come first."""
        return self.out.count(0)

    @property
    def results(self) -> int:
        """Elements of the output."""
        pairs = zip(self.shape, self.out, strict=True)
        return prod(size for size, stride in pairs if stride or not size)

    @property
    def extent(self) -> int:
        """The largest number of an element or a byte."""
        return max(
            self.numel,
            *(
                1 + sum((size - 1) * step for size, step in zip(self.shape, steps, strict=True))
                for steps in (self.out, *self.also, self.input)
            ),
        )

    def indexed_by_32_bits(self) -> bool:
        """Whether a kernel can number its elements and bytes by 32-bit integers."""
        return self.extent <= _LARGEST

    def parts(self) -> Iterator[Reduction]:
        """Yields loops small enough for 32 bits, in the order in which they run.

        Of a loop over more than a device holds, parts that are alike are yielded once.
        """
        yield from self._parts(set() if self.extent > _HELD else None)

    def _parts(self, seen: set[Reduction] | None) -> Iterator[Reduction]:
        if seen is not None:
            if self in seen:
                return
            seen.add(self)
        if self.indexed_by_32_bits():
            yield self
            return
        dim = self._longest()
        first = self.shape[dim] // 2
        yield from self._part(dim, 0, first)._parts(seen)
        yield from self._part(dim, first, self.shape[dim] - first)._parts(seen)

    def _longest(self) -> int:
        """The dimension with the largest extent in bytes; of equals, the slowest."""
        rows = (self.out, *self.also, self.input)
        extents = [
            max((size - 1) * row[dim] for row in rows) for dim, size in enumerate(self.shape)
        ]
        return max(range(len(extents)), key=lambda dim: (extents[dim], dim))

    def _part(self, dim: int, start: int, size: int) -> Reduction:
        shape = (*self.shape[:dim], size, *self.shape[dim + 1 :])
        offset = (self.offset + start * self.input[dim]) % (_ALIGNED * self.itemsize)
        return replace(self, shape=shape, offset=offset)


def reduction(
    shape: Sequence[int],
    strides: Sequence[int],
    itemsize: int,
    out_itemsizes: Sequence[int],
    dims: Collection[int],
    keepdim: bool,
    offset: int = 0,
    out_strides: Sequence[int] | None = None,
) -> Reduction:
    """The loop that reduces these dimensions of a tensor.

    Args:
        shape: of the input.
        strides: of the input, in elements.
        itemsize: bytes of its elements.
        out_itemsizes: bytes of the elements of each output.
        dims: those reduced, counted from the front.
        keepdim: whether the output keeps them, with size 1.
        offset: of its first element, in elements from an aligned address.
        out_strides: of an output that was there before, in elements; others are contiguous.
    """
    written = _written(shape, dims, keepdim, out_strides)
    of_out = [[stride * out_itemsize for stride in written] for out_itemsize in out_itemsizes]
    sizes = list(shape)
    operands = [*of_out, [stride * itemsize for stride in strides]]
    order = _order(sizes, operands, len(of_out))
    sizes = [sizes[dim] for dim in order]
    operands = [[row[dim] for dim in order] for row in operands]
    _join(sizes, operands)
    first, *also, last = (tuple(row) for row in operands)
    return Reduction(
        tuple(sizes), first, last, out_itemsizes[0], itemsize, offset * itemsize, tuple(also)
    )


def _written(
    shape: Sequence[int], dims: Collection[int], keepdim: bool, strides: Sequence[int] | None
) -> list[int]:
    """The output's strides, in elements, in all dimensions of the input."""
    if strides is None:
        kept = [1 if dim in dims else size for dim, size in enumerate(shape)]
        strides = contiguous_strides(kept)
    elif not keepdim:
        given = iter(strides)
        strides = [0 if dim in dims else next(given) for dim in range(len(shape))]
    # A reduced dimension of size 1 has a stride where it is kept, and else has none.
    return [
        0 if dim in dims and not (keepdim and shape[dim] == 1) else stride
        for dim, stride in enumerate(strides)
    ]


def _order(sizes: Sequence[int], operands: Sequence[Sequence[int]], outputs: int) -> list[int]:
    """An insertion sort by stride that bears with ambiguous comparisons."""
    order = list(range(len(sizes)))[::-1]
    for right in range(1, len(order)):
        at = right
        for left in reversed(range(right)):
            verdict = _slower(order[left], order[at], sizes, operands, outputs)
            if verdict > 0:
                order[left], order[at] = order[at], order[left]
                at = left
            elif verdict < 0:
                break
    return order


def _slower(
    a: int, b: int, sizes: Sequence[int], operands: Sequence[Sequence[int]], outputs: int
) -> int:
    """1 where dimension ``a`` belongs behind ``b``, -1 where before, 0 where it cannot be told."""
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


def _join(sizes: list[int], operands: list[list[int]]) -> None:
    """Make one dimension of neighbours that lie one after the other in every operand."""
    if len(sizes) <= 1:
        return
    last = 0
    for dim in range(1, len(sizes)):
        if 1 in (sizes[last], sizes[dim]) or all(
            sizes[last] * row[last] == row[dim] for row in operands
        ):
            if sizes[last] == 1:
                for row in operands:
                    row[last] = row[dim]
            sizes[last] *= sizes[dim]
        else:
            last += 1
            for row in operands:
                row[last] = row[dim]
            sizes[last] = sizes[dim]
    del sizes[last + 1 :]
    for row in operands:
        del row[last + 1 :]


def result_strides(shape: Sequence[int], inputs: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The strides, in elements, of a pointwise result of inputs of one shape."""
    order = _order(shape, [list(strides) for strides in inputs], 0)
    strides, step = [0] * len(shape), 1
    for dim in order:
        strides[dim] = step
        step *= shape[dim]
    return tuple(contiguous_strides(shape) if _only(shape, strides) else strides)


def _only(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements lie as in a contiguous tensor: sizes of 1 may have any stride."""
    plain = contiguous_strides(shape)
    return all(size == 1 or a == b for size, a, b in zip(shape, strides, plain, strict=True))


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a tensor without gaps whose last dimension is the fastest."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))

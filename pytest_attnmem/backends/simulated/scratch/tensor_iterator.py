"""The loop of a reduction, as TensorIterator makes it (aten/src/ATen/TensorIterator.cpp)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from .strides import contiguous_strides, reorder_dimensions

_LARGEST: Final = 2**31 - 1
_ALIGNED: Final = 4  # the most elements of one load
_DEVICE_BYTES: Final = 2**40  # no device has more; a longer loop has too many parts to list


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction loop: fastest dimension first; strides in bytes, 0 for reduced dimensions."""

    shape: tuple[int, ...]
    out: tuple[int, ...]
    input: tuple[int, ...]
    out_itemsize: int
    itemsize: int
    offset: int  # bytes from an aligned address to the first element of the input
    other_outs: tuple[tuple[int, ...], ...] = ()  # strides of further outputs

    @property
    def numel(self) -> int:
        """Returns the number of elements read."""
        return prod(self.shape)

    @property
    def reduced(self) -> int:
        """Returns the number of reduced dimensions; they come first."""
        return self.out.count(0)

    @property
    def results(self) -> int:
        """Returns the number of elements of the output."""
        pairs = zip(self.shape, self.out, strict=True)
        return prod(size for size, stride in pairs if stride or not size)

    @property
    def extent(self) -> int:
        """Returns the largest index of an element or a byte, plus 1."""
        return max(
            self.numel,
            *(
                1 + sum((size - 1) * step for size, step in zip(self.shape, steps, strict=True))
                for steps in (self.out, *self.other_outs, self.input)
            ),
        )

    def indexed_by_32_bits(self) -> bool:
        """Returns True if 32-bit integers can index all elements and bytes."""
        return self.extent <= _LARGEST

    def parts(self) -> Iterator[Reduction]:
        """Yields loops small enough for 32-bit indices, in the order in which they run.

        Equal parts of a loop that is larger than any device are yielded once.
        """
        yield from self._parts(set() if self.extent > _DEVICE_BYTES else None)

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
        """Returns the dimension with the largest extent in bytes; the slowest of equals."""
        rows = (self.out, *self.other_outs, self.input)
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
    """Returns the loop that reduces dimensions of a tensor.

    Args:
        shape: shape of the input.
        strides: strides of the input, in elements.
        itemsize: itemsize of the input.
        out_itemsizes: itemsizes of the outputs.
        dims: reduced dimensions, counted from the front.
        keepdim: True if the output keeps them, with size 1.
        offset: elements from an aligned address to the first element of the input.
        out_strides: strides of an existing output, in elements; a new one is contiguous.
    """
    written = _output_strides(shape, dims, keepdim, out_strides)
    of_out = [[stride * out_itemsize for stride in written] for out_itemsize in out_itemsizes]
    operands = [*of_out, [stride * itemsize for stride in strides]]
    order = reorder_dimensions(shape, operands, len(of_out))
    rows = [[row[dim] for dim in order] for row in (shape, *operands)]
    columns = _coalesced(rows[0], rows[1:])
    sizes, first, *other_outs, last = zip(*columns, strict=True) if columns else [()] * len(rows)
    return Reduction(
        sizes, first, last, out_itemsizes[0], itemsize, offset * itemsize, tuple(other_outs)
    )


def _output_strides(
    shape: Sequence[int], dims: Collection[int], keepdim: bool, strides: Sequence[int] | None
) -> list[int]:
    """Returns the output's strides, in elements, for all dimensions of the input."""
    if strides is None:
        kept = [1 if dim in dims else size for dim, size in enumerate(shape)]
        strides = contiguous_strides(kept)
    elif not keepdim:
        given = iter(strides)
        strides = [0 if dim in dims else next(given) for dim in range(len(shape))]
    # A reduced dimension of size 1 keeps its stride only with keepdim.
    return [
        0 if dim in dims and not (keepdim and shape[dim] == 1) else stride
        for dim, stride in enumerate(strides)
    ]


def _coalesced(sizes: Sequence[int], operands: Sequence[Sequence[int]]) -> list[list[int]]:
    """Returns the size and the strides of each dimension, in the given order.

    Neighbours that are contiguous in every operand are one.
    """
    joined: list[list[int]] = []
    for size, *steps in zip(sizes, *operands, strict=True):
        last, *before = joined[-1] if joined else (0,)
        if joined and (
            1 in (last, size)
            or all(last * step == own for step, own in zip(before, steps, strict=True))
        ):
            joined[-1] = [last * size, *(steps if last == 1 else before)]
        else:
            joined.append([size, *steps])
    return joined

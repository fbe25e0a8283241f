"""The blocks of scores that block-sparse attention computes: local, strided and random."""

from __future__ import annotations

import random as randomness
from dataclasses import dataclass

from .input_checks import at_least_one


@dataclass(frozen=True, slots=True)
class BlockMask:
    """The active blocks of the scores. Masks of one size combine with ``|``."""

    rows: tuple[tuple[int, ...], ...]
    """For each block of queries, the active blocks of keys, in order."""
    columns: int
    """The number of blocks of keys."""

    @property
    def active(self) -> int:
        """The number of active blocks: the symbol ``active`` of the model."""
        return sum(map(len, self.rows))

    def causal(self) -> BlockMask:
        """Returns the mask without the blocks above the diagonal."""
        rows = (tuple(j for j in row if j <= i) for i, row in enumerate(self.rows))
        return BlockMask(tuple(rows), self.columns)

    def __or__(self, other: BlockMask) -> BlockMask:
        if (len(self.rows), self.columns) != (len(other.rows), other.columns):
            raise ValueError(
                f"block masks must have one shape, got {[len(self.rows), self.columns]} and"
                f" {[len(other.rows), other.columns]}"
            )
        both = zip(self.rows, other.rows, strict=True)
        return BlockMask(tuple(tuple(sorted({*a, *b})) for a, b in both), self.columns)


def local(rows: int, columns: int, window: int) -> BlockMask:
    """Returns the blocks (i, j) with ``|i - j| < window``."""
    at_least_one(window=window)
    near = (range(max(0, i - window + 1), min(columns, i + window)) for i in range(rows))
    return BlockMask(tuple(map(tuple, near)), columns)


def strided(rows: int, columns: int, stride: int) -> BlockMask:
    """Returns the blocks (i, j) with ``i - j`` a multiple of ``stride``."""
    at_least_one(stride=stride)
    return BlockMask(tuple(tuple(range(i % stride, columns, stride)) for i in range(rows)), columns)


def random(
    rows: int, columns: int, count: int, *, causal: bool = False, seed: int = 0
) -> BlockMask:
    """Returns ``count`` random blocks of keys for each block of queries, or all of fewer blocks.

    With ``causal`` no block is above the diagonal. The same ``seed`` gives the same blocks.
    """
    at_least_one(count=count)
    draw = randomness.Random(seed)
    known = (min(columns, i + 1) if causal else columns for i in range(rows))
    drawn = (tuple(sorted(draw.sample(range(m), min(count, m)))) for m in known)
    return BlockMask(tuple(drawn), columns)

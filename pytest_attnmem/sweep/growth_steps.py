"""The growth of memory from one length of a sweep to the next, and the edge of what fits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from .results import OK, OOM, Row, Sweep


@dataclass(frozen=True, slots=True)
class GrowthStep:
    """The growth of a kernel's memory from one length to the next length with a number."""

    kernel: str
    d: int
    shorter: int
    longer: int
    factor: Fraction
    """The memory at the longer length divided by the memory at the shorter length."""
    without_workspaces: Fraction
    """The same factor for the memory of the case alone."""

    @property
    def exponent(self) -> float:
        """The power of N with which the memory of the case alone grew."""
        grown = float(self.without_workspaces)
        return math.log(grown) / math.log(self.longer / self.shorter)


def growth_steps(sweep: Sweep) -> Iterator[GrowthStep]:
    """Yields the steps of each kernel and width, in the order of lengths."""
    for (kernel, d), rows in sweep.lines().items():
        known = [(row, nbytes) for row in rows if (nbytes := growing_memory(row)) is not None]
        for (short, low), (long, high) in pairwise(known):
            if short.N == long.N or low <= short.workspace_bytes:
                continue
            own = Fraction(high - long.workspace_bytes, low - short.workspace_bytes)
            yield GrowthStep(kernel, d, short.N, long.N, Fraction(high, low), own)


def growing_memory(row: Row) -> int | None:
    """Returns the memory before the backward pass, or the peak of a row without one."""
    return row.before_bytes if row.backward else row.peak_bytes


def largest_that_fits(rows: Iterable[Row]) -> Row | None:
    """Returns the longest row that ran, the widest of several."""
    return max((row for row in rows if row.status == OK), key=_size, default=None)


def smallest_that_does_not(rows: Iterable[Row]) -> Row | None:
    """Returns the shortest row that ran out of memory, the narrowest of several."""
    return min((row for row in rows if row.status == OOM), key=_size, default=None)


def _size(row: Row) -> tuple[int, int]:
    return row.N, row.d

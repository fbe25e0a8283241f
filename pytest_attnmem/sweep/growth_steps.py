"""How the memory of a sweep grows from one length to the next, and what a sweep found in all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from .results import OK, OOM, Row, Sweep


@dataclass(frozen=True, slots=True)
class GrowthStep:
    """From one length of a kernel to the next that has a number."""

    kernel: str
    d: int
    shorter: int
    longer: int
    factor: Fraction
    """The memory at the longer over that at the shorter."""
    without_workspaces: Fraction
    """The same of what the case itself holds."""

    @property
    def exponent(self) -> float:
        """The power of N that the case's own memory grew with between the two."""
        grown = float(self.without_workspaces)
        return math.log(grown) / math.log(self.longer / self.shorter)


def steps(sweep: Sweep) -> Iterator[GrowthStep]:
    """Each kernel and width, from length to length, by what :func:`memory` says."""
    for (kernel, d), rows in sweep.lines().items():
        known = [(row, nbytes) for row in rows if (nbytes := memory(row)) is not None]
        for (short, low), (long, high) in pairwise(known):
            if short.N == long.N or low <= short.workspace_bytes:
                continue
            own = Fraction(high - long.workspace_bytes, low - short.workspace_bytes)
            yield GrowthStep(kernel, d, short.N, long.N, Fraction(high, low), own)


def memory(row: Row) -> int | None:
    """The number that growth is told of: before the backward pass, or the peak without one."""
    return row.before_bytes if row.backward else row.peak_bytes


def largest_that_fits(rows: Iterable[Row]) -> Row | None:
    """The longest, and of those the widest, that ran."""
    return max((row for row in rows if row.status == OK), key=_size, default=None)


def smallest_that_does_not(rows: Iterable[Row]) -> Row | None:
    """The shortest, and of those the narrowest, that ran out of memory."""
    return min((row for row in rows if row.status == OOM), key=_size, default=None)


def _size(row: Row) -> tuple[int, int]:
    return row.N, row.d

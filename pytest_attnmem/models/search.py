"""The largest size that fits, by bisection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

#: The largest size that is tried.
LIMIT: Final = 1 << 27


@dataclass(frozen=True, slots=True)
class Longest:
    """The largest size of a symbol with which a program fits."""

    symbol: str
    size: int
    """0 if not even 1 fits."""
    limit: int
    """No larger size was tried."""


def guess(needed: Mapping[int, int | None], room: int) -> int:
    """Returns the size at which a line through the bytes of two sizes meets ``room``, or 0.

    It only starts a search: bytes that grow faster than a line meet ``room`` earlier.
    """
    (first, low), (second, high) = ((size, nbytes or 0) for size, nbytes in [*needed.items()][:2])
    if high <= low or room <= high:
        return 0
    return second + (room - high) * (second - first) // (high - low)


def longest(fits: Callable[[int], bool], about: int = 1, limit: int = LIMIT) -> int:
    """Returns the largest N up to ``limit`` that fits while N + 1 does not; 0 if 1 does not fit.

    The search starts at ``about``, doubles its steps until it passes the edge, then bisects.
    """
    about = min(max(1, about), limit)
    step = max(1, about >> 10)
    low, high = (about, limit + 1) if fits(about) else (0, about)  # low fits, high does not
    while low + 1 < high:
        rising = low >= about
        tried = low + step if rising else high - step
        step *= 2
        if not low < tried < high:
            tried = high - 1 if rising else low + 1
        if fits(tried):
            low = tried
            if not rising:
                break
        else:
            high = tried
            if rising:
                break
    return last_that_fits(fits, low, high)


def last_that_fits(fits: Callable[[int], bool], low: int, high: int) -> int:
    """Returns the largest N that fits, by bisection, given that ``low`` fits and ``high`` not."""
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low

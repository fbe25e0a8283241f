"""The sizes at which a test runs again, to see how its memory grows."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import BudgetError
from ..formulas.interpolation import CONFIRMING

#: Two sizes determine a line, and so many confirm it.
ENOUGH = 2 + CONFIRMING

#: A size below is small: multiples of it cost little.
_SMALL = 16
#: How far beyond the test's own size a run goes where tensors have no data.
_BEYOND = (2, 8, 64, 4, 16, 32)
#: The most allocations of one run at a larger size: a loop over blocks has many more there.
_MOST = 20_000


def smaller(size: int, count: int = ENOUGH) -> tuple[int, ...]:
    """Returns *count* sizes below *size* that leave padding and blocks alone where they can.

    They are multiples of the largest block of 512, 256, … that leaves room for so many.

    Raises:
        BudgetError: *size* is too small for so many.
    """
    for block in (512, 256, 128, 64, 32, 16, 8, 4, 2, 1):
        steps = size // block
        if steps > count or (steps == count and size % block):
            # spread out, the largest about half: they cost less than one more run of the size
            top = max(count, steps // 2)
            chosen = sorted({block * max(1, top * (i + 1) // count) for i in range(count)})
            if len(chosen) == count:
                return tuple(chosen)
    raise BudgetError(f"size {size} is too small to vary: {count} smaller ones are needed")


def others(size: int) -> Iterator[int]:
    """Yields sizes other than *size*: smaller ones first, then multiples of a small *size*.

    1 is not among them: many operators take a shorter way there. Multiples keep what divides the
    size, such as query heads that key/value heads are shared by.
    """
    try:
        found = [other for other in smaller(size) if other > 1]
    except BudgetError:
        found = []
    yield from found
    if size < _SMALL:
        halves = (size // 2,) if size % 2 == 0 and size > 2 else ()
        yield from (n for n in (*halves, *(size * k for k in range(2, 9))) if n not in found)


def apart(size: int) -> Iterator[int]:
    """Yields sizes at which memory is compared that must not depend on the size.

    Halves and multiples keep what divides *size*.
    """
    yield from (size // part for part in (2, 4) if size % part == 0 and size // part > 1)
    yield from (size * times for times in range(2, 6))


def closer(size: int) -> tuple[int, ...]:
    """Returns sizes just below *size*: far smaller ones may be in a regime of their own."""
    block = next((power for power in (128, 64, 32, 16, 8, 4, 2) if size >= 16 * power), 1)
    return tuple(size * sixteenths // 16 // block * block for sixteenths in (12, 13, 14, 15))


def larger(size: int, allocations: int, *, loops: bool) -> tuple[int, ...]:
    """Returns larger sizes, for a backend on which tensors have no data.

    *allocations* are those of one run at *size*. A program that *loops* over the size makes up to
    the square of it; what would make more than ``_MOST`` is left out.
    """
    return tuple(
        size * times for times in _BEYOND if allocations * (times * times if loops else 1) <= _MOST
    )

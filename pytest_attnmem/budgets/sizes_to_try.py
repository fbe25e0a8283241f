"""The sizes at which a test runs again, to measure the growth of its memory."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import BudgetError
from ..formulas.interpolation import CONFIRMING

#: Two sizes determine a line; the others confirm it.
ENOUGH = 2 + CONFIRMING

#: Below this size, runs at multiples of a size are cheap.
_SMALL = 16
#: From this size on, all sizes to try are multiples.
ODD = 16
#: The last resort: many operators have a special path for 1.
_LAST = (1,)
#: Multiples of the test's own size for larger runs, where tensors have no data.
_BEYOND = (2, 8, 64, 4, 16, 32)
#: The most allocations of one larger run: a loop over blocks makes more at a larger size.
_MOST = 20_000


def smaller(size: int) -> tuple[int, ...]:
    """Returns ``ENOUGH`` sizes below *size* that add no padding and no partial block, if possible.

    They are multiples of the largest block of 512, 256, … that *size* has enough multiples of.

    Raises:
        BudgetError: *size* is too small.
    """
    for block in (512, 256, 128, 64, 32, 16, 8, 4, 2, 1):
        steps = size // block
        if steps > ENOUGH or (steps == ENOUGH and size % block):
            # spread out up to about half: together cheaper than one more run at the size
            top = max(ENOUGH, steps // 2)
            chosen = sorted({block * max(1, top * (i + 1) // ENOUGH) for i in range(ENOUGH)})
            if len(chosen) == ENOUGH:
                return tuple(chosen)
    raise BudgetError(f"size {size} is too small to vary: {ENOUGH} smaller ones are needed")


def others(size: int) -> Iterator[int]:
    """Yields other sizes than *size*, the cheap ones first: far below it, then multiples of a small
    *size*, then what a body with limits takes.

    Multiples keep the divisors of the size, such as the number of query heads that share a
    key/value head.
    """
    try:
        below = [other for other in smaller(size) if other > 1]
    except BudgetError:
        below = []
    halves = (size // 2,) if size % 2 == 0 and size > 2 else ()
    near = (*halves, *(size * k for k in range(2, 9))) if size < _SMALL else closer(size)
    yield from dict.fromkeys([*below, *near, *elsewhere(size), *_LAST])


def elsewhere(size: int) -> Iterator[int]:
    """Yields other sizes than *size* for an argument that may take few, the cheap ones first.

    A body often takes only divisors and multiples, such as heads that divide a width.
    """
    divisors = [size // part for part in range(2, 9) if size % part == 0 and size // part > 1]
    near = [other for other in (size // 2, size - 1) if other > 1]
    multiples = [size * 2, size * 3]
    tried = [*multiples, *near] if size < _SMALL else [*near, *multiples]
    yield from dict.fromkeys([*divisors, *tried, size + 1, size * 4, size * 5])


def closer(size: int) -> tuple[int, ...]:
    """Returns sizes just below *size*: memory may grow differently at much smaller sizes.

    From 256 on they are multiples of 32, to which kernels of attention pad.
    """
    parts = 8 if 256 <= size < 512 else 16
    block = next((power for power in (128, 64, 32, 16, 8, 4, 2) if size >= parts * power), 1)
    return tuple(size * part // parts // block * block for part in range(parts - 4, parts))


def larger(size: int, allocations: int, *, loops: bool) -> tuple[int, ...]:
    """Returns larger sizes, for a backend on which tensors have no data.

    *allocations* counts one run at *size*. If the program *loops* over the size, its allocations
    grow up to quadratically; sizes with more than ``_MOST`` allocations are left out.
    """
    return tuple(
        size * times for times in _BEYOND if allocations * (times * times if loops else 1) <= _MOST
    )

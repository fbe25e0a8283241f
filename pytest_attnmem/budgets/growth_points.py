"""Measures a function at each point of a grid of sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

from ..errors import AttnMemError, BudgetError
from ..formulas.interpolation import CONFIRMING
from ..measurement.measurement import Measurement
from ..symbols.sizes import as_size
from ..units import format_size, format_values, shown
from .growth_fit import Growth
from .sizes_to_try import ENOUGH


def grid(sizes: Mapping[str, Iterable[int]]) -> dict[str, tuple[int, ...]]:
    """Returns the sizes to vary, sorted and without duplicates.

    Raises:
        BudgetError: there are too few sizes, or a value is not a size.
    """
    if not sizes:
        raise BudgetError("growth needs sizes to vary: growth(fn, N=[256, 512, 1024, 2048])")
    made: dict[str, tuple[int, ...]] = {}
    for name, values in sizes.items():
        listed: Sequence[int] = [values] if isinstance(values, int) else [*values]
        distinct = tuple(sorted({as_size("growth", name, value) for value in listed}))
        if len(distinct) < ENOUGH:
            raise BudgetError(
                f"growth needs {ENOUGH} sizes of {name} or more, got {len(distinct)}: two"
                f" determine a line, and {CONFIRMING} confirm it"
            )
        made[name] = distinct
    return made


def grow(
    measure: Callable[[Callable[[], Any]], Measurement],
    fn: Callable[..., Any],
    sizes: Mapping[str, Iterable[int]],
    metric: str,
    trace: Callable[[Callable[[], Any]], Measurement] | None = None,
) -> Growth:
    """Measures ``fn(N=…)`` at each point of a grid of sizes, the largest last.

    The function runs twice at the first point, and the second run counts: the first may also fill
    caches and gradients.

    Raises:
        BudgetError: there are too few sizes, the function does not take one, or the metric was
            not measured.
    """
    made = grid(sizes)
    peaks: dict[tuple[int, ...], int] = {}
    largest: Measurement | None = None
    first_run = ""
    traces: dict[tuple[int, ...], Callable[[], Measurement]] = {}
    for at in product(*made.values()):
        named = dict(zip(made, at, strict=True))
        call = partial(fn, **named)
        largest, peaks[at] = _measured(measure, call, named, metric)
        if len(peaks) == 1:
            first = peaks[at]
            largest, peaks[at] = _measured(measure, call, named, metric)
            first_run = _first_run(first, peaks[at], named, metric)
        if trace is not None:
            traces[at] = partial(trace, call)
    return Growth(made, peaks, metric, largest=largest, traces=traces, first_run=first_run)


def _measured(
    measure: Callable[[Callable[[], Any]], Measurement],
    call: Callable[[], Any],
    named: Mapping[str, int],
    metric: str,
) -> tuple[Measurement, int]:
    """Returns the measurement of a call at *named* sizes, and its bytes."""
    listed = format_values(named)
    try:
        measured = measure(call)
    except AttnMemError:
        raise
    except Exception as error:
        raise BudgetError(
            f"growth: the function raised {shown(error, 160)} at {listed}; vary over sizes"
            " that it takes"
        ) from error
    try:
        return measured, measured.known(metric)
    except BudgetError as error:
        raise BudgetError(f"growth: at {listed} {error}") from None


def _first_run(first: int, again: int, named: Mapping[str, int], metric: str) -> str:
    """Returns the line on a first run whose bytes differ from those of the second; or ""."""
    if first == again:
        return ""
    than = "more" if first > again else "less"
    return (
        f"{metric} at {format_values(named)} was {format_size(abs(first - again))} {than} in the"
        " first run than in the second, which counts: gradients or a cache, most likely"
    )

"""The texts in the cells of a table; every report makes its table of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..backends.registry import BACKENDS
from ..symbols.names import DEFAULTS
from ..units import format_change, format_distinct, format_in, format_size, format_values
from .record import Record
from .summary import Summary, share


def aligned(
    rows: Sequence[Sequence[Any]], headers: Sequence[str], sides: str, form: str = "simple"
) -> list[str]:
    """Returns the lines of a table; ``sides`` has an ``l`` or an ``r`` for each column."""
    from tabulate import tabulate

    names = [{"l": "left", "r": "right"}[side] for side in sides]
    drawn = tabulate(rows, headers, tablefmt=form, colalign=names, disable_numparse=True)
    return drawn.splitlines()


def size(nbytes: int | None, unit: str) -> str:
    """Returns the size in that unit; a size above 0 that rounds to 0.0 reads ``<0.1``."""
    if nbytes is None:
        return "-"
    shown = format_in(nbytes, unit)
    return f"<{shown[:-1]}1" if nbytes > 0 and not shown.strip("0.") else shown


def budget(row: Record) -> str:
    """Returns the limit, or the contract."""
    return row.budget if row.is_contract else _sizes(row)[0]


def peak(row: Record) -> str:
    """Returns the measured number, with its metric if that is not the peak."""
    if row.out_of_memory:
        return "out of memory"
    metric = "" if row.metric == "peak" else f" ({row.metric})"
    return _sizes(row)[1] + metric


def _sizes(row: Record) -> tuple[str, str]:
    """Returns the limit and the number, each in its own unit; never alike if they differ."""
    limit, value = row.limit_bytes, row.value
    if limit is not None and value is not None:
        shown = format_distinct(limit, value)
        return shown[0], shown[-1]
    return tuple("-" if one is None else format_size(one) for one in (limit, value))  # type: ignore[return-value]


def percent(row: Record) -> str:
    """Returns the used percentage of the budget; above 999 it reads ``>999``."""
    used = share(row)
    if used is None:
        return ""
    return f"{float(used * 100):.1f}" if used * 100 <= 999 else ">999"


def change(row: Record) -> str:
    """Returns the bytes above the baseline, or the state if there is no such number."""
    if row.baseline_bytes is None or row.value is None or row.out_of_memory:
        return row.baseline_state
    since = f" (torch {row.baseline_torch})" if row.baseline_torch else ""
    return f"{format_change(row.value - row.baseline_bytes)}{since}"


def explanation(row: Record) -> list[str]:
    """Returns the lines that explain a failure: those of the terminal, and the baseline's bytes."""
    if row.baseline_bytes is None or row.value is None:
        return [*row.explanation]
    baseline = format_distinct(row.baseline_bytes, row.value)[0]
    return [*row.explanation, f"  baseline  {baseline}"]


def outcome(row: Record) -> str:
    """Returns the outcome; a row of a test that was expected to be over is an expected failure."""
    if row.outcome is not None:
        return "expected failure" if row.is_expected_failure else row.outcome.value
    return "not measured" if row.reason else "measured"


def failures_first(summary: Summary) -> list[Record]:
    """Returns the rows by outcome, failures first, and by share within an outcome."""
    return sorted(summary.by_share, key=lambda row: _ORDER.index(outcome(row)))


_ORDER = ("over", "not enforced", "expected failure", "within", "measured", "not measured")


def backend(row: Record) -> str:
    """Returns the device of the row, with the backend if the device does not imply it."""
    known = row.backend in BACKENDS or ":" in row.backend or row.device == row.backend
    return row.place if known or not row.backend else f"{row.backend} on {row.device}"


def own_sizes(sizes: Mapping[str, int]) -> dict[str, int]:
    """Returns the sizes of symbols that are not the default of another: no M that equals N."""
    return {name: n for name, n in sizes.items() if n != sizes.get(DEFAULTS.get(name, ""))}


def shape(row: Record) -> str:
    """Returns the sizes of the symbols that say something of their own."""
    return format_values(own_sizes(row.shape))

"""What a cell of a report's table says of a row; the table of every report is made of these."""

from __future__ import annotations

from collections.abc import Iterable

from ..backends.registry import BACKENDS
from ..symbols.names import DEFAULTS
from ..units import common_unit, format_in
from .record import Record
from .summary import Summary, share


def unit(rows: Iterable[Record]) -> str:
    """The one unit for a table's sizes: the typical row's.

    By the largest, most of the others would read 0.0.
    """
    sizes = sorted(size for row in rows for size in (row.limit_bytes, row.value) if size)
    return common_unit(sizes[len(sizes) // 2 :][:1])


def size(nbytes: int | None, unit: str) -> str:
    """A number of that unit; what is there and too small for it is not shown as nothing."""
    if nbytes is None:
        return "-"
    shown = format_in(nbytes, unit)
    return f"<{shown[:-1]}1" if nbytes > 0 and not shown.strip("0.") else shown


def budget(row: Record, unit: str) -> str:
    """The limit, or the contract."""
    return row.budget if row.is_contract else size(row.limit_bytes, unit)


def peak(row: Record, unit: str) -> str:
    """The number that was held to the budget, and its metric where that is another."""
    if row.out_of_memory:
        return "out of memory"
    metric = "" if row.metric == "peak" else f" ({row.metric})"
    return size(row.value, unit) + metric


def percent(row: Record) -> str:
    """Used part of the budget; far over, it is not spelled out."""
    used = share(row)
    if used is None:
        return ""
    return f"{float(used * 100):.1f}" if used * 100 <= 999 else ">999"


def change(row: Record) -> str:
    """Bytes more than in the baseline; ``new`` and ``stale`` where there is no such number."""
    if row.baseline_bytes is None or row.value is None or row.out_of_memory:
        return row.baseline_state
    return f"{row.value - row.baseline_bytes:+,} B"


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
    """Returns the device of the row, and its backend where the device does not tell."""
    known = row.backend in BACKENDS or ":" in row.backend or row.device == row.backend
    return row.place if known or not row.backend else f"{row.backend} on {row.device}"


def shape(row: Record) -> str:
    """The symbols that say something of their own: M only where it is not N."""
    return " ".join(
        f"{name}={value}"
        for name, value in row.shape.items()
        if value != row.shape.get(DEFAULTS.get(name, ""))
    )

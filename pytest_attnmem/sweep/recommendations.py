"""Recommendations against the memory of standard attention, with the savings in a sweep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ..units import format_size
from .results import OK, Row, Sweep


class _Remedy(NamedTuple):
    name: str
    kernel: str  # a kernel's name or its prefix
    description: str
    example: str = ""
    """A kernel of that prefix to add to a sweep; empty if ``kernel`` is a whole name."""


_REMEDIES: Final = (
    _Remedy(
        "FlashAttention",
        "flash",
        "computes the scores tile by tile, never as a whole matrix, and recomputes them in the"
        " backward pass",
    ),
    _Remedy(
        "Checkpointing",
        "checkpointed",
        "keeps nothing of the forward pass and repeats it in the backward pass, whose peak still"
        " has whole score matrices; it saves memory between the passes, so over many layers",
    ),
    _Remedy(
        "Sequence parallelism",
        "ring:",
        "splits the sequence between ranks, which pass keys and values around a ring",
        "ring:4",
    ),
    _Remedy(
        "Sparse attention",
        "sliding-window",
        "shows each query only the keys near it, which changes the result",
    ),
)


def recommendations(sweep: Sweep) -> Iterator[str]:
    """Yields the lines of the section: each remedy at the longest length of standard attention.

    A remedy without a row in the sweep is listed with the kernel to add.
    """
    base = _base(sweep)
    if base is None or base.peak_bytes is None:
        return
    verb = "peaks" if base.status == OK else "would peak"
    yield "## What to do about it"
    yield ""
    peak = format_size(base.peak_bytes)
    yield f"At d={base.d} N={base.N}, where {base.kernel} {verb} at {peak}:"
    yield ""
    for number, remedy in enumerate(_REMEDIES, 1):
        yield f"{number}. **{remedy.name}** {remedy.description}."
        rows = [row for row in _comparable(sweep, base) if row.kernel.startswith(remedy.kernel)]
        best = [row for row in rows if row.kernel == remedy.kernel] or rows
        if best:
            yield f"   {_saving(best[0], base)}"
        else:
            missing = remedy.example or remedy.kernel
            yield f"   Not in this sweep: `--kernel {base.kernel},{missing}`."


def _base(sweep: Sweep) -> Row | None:
    """Returns the row of standard attention with a peak that is longest, then widest."""
    for kernel in ("textbook", "standard"):
        rows = [row for row in sweep.rows if row.kernel == kernel and row.peak_bytes is not None]
        if rows:
            return max(rows, key=lambda row: (row.N, row.d))
    return None


def _comparable(sweep: Sweep, base: Row) -> list[Row]:
    return [
        row
        for row in sweep.rows
        if (row.N, row.d) == (base.N, base.d) and row.kernel != base.kernel
    ]


def _saving(row: Row, base: Row) -> str:
    if row.peak_bytes is None or base.peak_bytes is None:
        return f"`{row.kernel}`: {row.status}, {row.reason}."
    text = f"`{row.kernel}` peaks at {format_size(row.peak_bytes)}"
    if row.status != OK:
        text += f" ({row.status} on this device)"
    text += f": {_compared(row.peak_bytes, base.peak_bytes)}."
    if row.before_bytes is not None and base.before_bytes is not None:
        kept = format_size(row.before_bytes)
        instead = format_size(base.before_bytes)
        text += f" Before the backward pass it needs {kept} instead of {instead}."
    if row.forward_ms and base.forward_ms:
        text += f" Its forward pass takes {row.forward_ms / base.forward_ms:.2f} times as long."
    return text


def _compared(peak: int, base: int) -> str:
    share = 100 * (base - peak) / base
    if share < 0:
        return f"{-share:.1f} % more"
    return f"{share:.1f} % less, a factor of {base / peak:.1f}"

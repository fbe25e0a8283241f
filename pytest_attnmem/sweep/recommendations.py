"""What there is to do about the memory of standard attention, and what it saves in a sweep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ..units import format_size
from .results import OK, Row, Sweep


class _Remedy(NamedTuple):
    name: str
    kernel: str  # or what its name begins with
    how: str


_REMEDIES: Final = (
    _Remedy(
        "FlashAttention",
        "flash",
        "works on tiles of the scores, which are never there as a whole; recomputes them in the"
        " backward pass",
    ),
    _Remedy(
        "Checkpointing",
        "checkpointed",
        "keeps nothing of the forward pass and repeats it in the backward pass, whose peak still"
        " has whole score matrices; it saves between the passes, and so over many layers",
    ),
    _Remedy(
        "Sequence parallelism",
        "ring:",
        "shares the sequence between ranks; keys and values go round",
    ),
    _Remedy(
        "Sparse attention",
        "sliding-window",
        "lets a query see the keys near it alone, which is another attention",
    ),
)


def advice(sweep: Sweep) -> Iterator[str]:
    """The section of a report: each remedy at the longest length that the standard has, in bytes.

    One that the sweep has no rows of is named with the kernel that it lacks.
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
        yield f"{number}. **{remedy.name}** {remedy.how}."
        found = [row for row in _alike(sweep, base) if row.kernel.startswith(remedy.kernel)]
        exact = [row for row in found if row.kernel == remedy.kernel] or found
        if exact:
            yield f"   {_saving(exact[0], base)}"
        else:
            missing = remedy.kernel + ("4" if remedy.kernel.endswith(":") else "")
            yield f"   Not in this sweep: `--kernel {base.kernel},{missing}`."


def _base(sweep: Sweep) -> Row | None:
    """The standard at its longest length with a number, and there at its widest."""
    for kernel in ("standard", "standard-fused"):
        rows = [row for row in sweep.rows if row.kernel == kernel and row.peak_bytes is not None]
        if rows:
            return max(rows, key=lambda row: (row.N, row.d))
    return None


def _alike(sweep: Sweep, base: Row) -> list[Row]:
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
        text += f" Before the backward pass {kept} instead of {format_size(base.before_bytes)}."
    if row.forward_ms and base.forward_ms:
        text += f" Its forward pass takes {row.forward_ms / base.forward_ms:.2f} times as long."
    return text


def _compared(peak: int, base: int) -> str:
    share = 100 * (base - peak) / base
    if share < 0:
        return f"{-share:.1f} % more"
    return f"{share:.1f} % less, a factor of {base / peak:.1f}"

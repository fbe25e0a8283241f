"""A sweep as a table for people, and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO

from ..units import format_in, format_size
from .results import OK, OOM, Row, Sweep

HEADERS = (
    *("kernel", "d", "N", "forward ms", "backward ms", "before backward MiB", "peak MiB"),
    *("status", ""),
)
_COLUMNS = (
    *("kernel", "B", "H", "N", "d", "dtype", "causal", "backward", "status", "by", "reason"),
    *("forward_ms", "backward_ms", "before_bytes", "peak_bytes", "reserved_bytes"),
    "workspace_bytes",
)


def render(sweep: Sweep) -> list[str]:
    """The table, what is to be known of it, and the longest that fits."""
    from tabulate import tabulate

    table = tabulate(
        [cells(row) for row in sweep.rows],
        headers=HEADERS,
        colalign=["left", *["right"] * 6, "left", "left"],
        disable_numparse=True,
    )
    lines = [line.rstrip() for line in table.splitlines()]
    return [title(sweep), "", *lines, "", *notes(sweep)]


def title(sweep: Sweep) -> str:
    """What all rows have in common, in a line."""
    of = sweep.parameters
    passes = "forward and backward" if of["backward"] else "forward"
    memory = of.get("memory_bytes")
    room = f", {format_size(memory)}" if memory else ""
    return f"{passes}, B={of['batch']} H={of['heads']} {of['dtype']}, {of['device']}{room}"


def cells(row: Row) -> list[str]:
    """The row as text; what a device without the memory would have needed is told apart."""
    peak = row.peak_bytes
    remark = row.reason
    if row.status == OOM and peak is not None:
        remark += f"; the peak would be {mebibytes(peak)} MiB"
        peak = None
    if not remark and row.by not in ("simulated", "measured"):
        remark = row.by
    return [*first_cells(row), mebibytes(peak), row.status, remark]


def first_cells(row: Row) -> list[str]:
    """What was asked for, the times, and the memory before backward."""
    return [
        row.kernel,
        str(row.d),
        str(row.N),
        milliseconds(row.forward_ms),
        milliseconds(row.backward_ms),
        mebibytes(row.before_bytes),
    ]


def mebibytes(nbytes: int | None) -> str:
    """One decimal, as the reference document writes its MB."""
    return "-" if nbytes is None else format_in(nbytes, "MiB")


def milliseconds(value: float | None) -> str:
    """Two decimals."""
    return "-" if value is None else f"{value:.2f}"


def notes(sweep: Sweep) -> Iterator[str]:
    """How to read the numbers."""
    workspace = max((row.workspace_bytes for row in sweep.rows), default=0)
    if workspace:
        yield f"memory is all that is allocated, {format_size(workspace)} of workspaces included"
    if "standard" in sweep.kernels:
        yield (
            "standard is the textbook's attention, softmax written out, causality a float mask;"
            " standard-fused is the bundled kernel"
        )
    if any(row.by == "by growth" for row in sweep.rows):
        yield "by growth: the exact polynomial through shorter lengths, too long to simulate itself"
    if any(row.by == "by the model" for row in sweep.rows):
        yield "by the model: one rank's share, by the formulas of the kernel's memory model"
    for found in sweep.longest:
        name = f"{found['kernel']}, d={found['d']}"
        if found["N"] is None:
            yield f"longest that fits: {name}: {found['reason']}"
        else:
            told = [
                f"{what} {format_size(nbytes)}"
                for what in ("peak", "reserved")
                if (nbytes := found[f"{what}_bytes"]) is not None
            ]
            yield f"longest that fits: {name}: N={found['N']:,}, {', '.join(told)}"
    if not sweep.complete:
        done = len(sweep.rows)
        yield f"interrupted: {done} row{'' if done == 1 else 's'} done; --resume goes on"


def decompositions(sweep: Sweep) -> list[str]:
    """The components of every peak that has them."""
    from tabulate import tabulate

    lines: list[str] = []
    for row in sweep.rows:
        if not row.components or row.peak_bytes is None:
            continue
        table = tabulate(
            [
                *(
                    [part.name, format_size(part.nbytes), part.count, part.growth, part.formula]
                    for part in row.components
                ),
                ["peak", format_size(row.peak_bytes), "", "", f"{row.peak_bytes:,} B"],
            ],
            headers=["component", "size", "tensors", "grows as", "bytes"],
            colalign=["left", "right", "right", "left", "left"],
            disable_numparse=True,
        )
        would = "" if row.status == OK else f" ({row.status}: what it would be)"
        lines += ["", f"{row.kernel}, d={row.d} N={row.N}: peak{would}", *table.splitlines()]
    return [line.rstrip() for line in lines]


def to_csv(sweep: Sweep) -> str:
    """All rows, bytes and milliseconds as numbers; empty where there is none."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in sweep.rows:
        values = (getattr(row, name) for name in _COLUMNS)
        writer.writerow("" if value is None else value for value in values)
    return text.getvalue()

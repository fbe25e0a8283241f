"""The table of a sweep as text, and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import StringIO

from ..report.cells import aligned
from ..units import format_count, format_in, format_size
from .results import OK, OOM, Row, Sweep

HEADERS = (
    *("kernel", "d", "N", "forward ms", "backward ms", "before backward MiB", "peak MiB"),
    *("status", ""),
)
_NUMBERS = frozenset(HEADERS[1:7])
_COLUMNS = (
    *("kernel", "B", "H", "N", "d", "dtype", "causal", "backward", "status", "by", "reason"),
    *("forward_ms", "backward_ms", "before_bytes", "peak_bytes", "reserved_bytes"),
    "workspace_bytes",
)


def render(sweep: Sweep) -> list[str]:
    """Returns the lines of the table, and the notes under it."""
    headers, *found = filled(HEADERS, [cells(row) for row in sweep.rows])
    sides = "".join("r" if header in _NUMBERS else "l" for header in headers)
    lines = [line.rstrip() for line in aligned(found, headers, sides)]
    return [title(sweep), "", *lines, "", *notes(sweep)]


def filled(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Returns the headers and the rows, without the columns that no row fills."""
    columns = [*zip(headers, *rows, strict=True)]
    kept = [column for column in columns if not rows or {*column[1:]} - {"", "-"}]
    return [[*cells] for cells in zip(*kept, strict=True)]


def title(sweep: Sweep) -> str:
    """Returns a line with the parameters that all rows share."""
    given = sweep.parameters
    passes = "forward and backward" if given["backward"] else "forward"
    nbytes = given.get("memory_bytes")
    memory = f", {format_size(nbytes)}" if nbytes else ""
    sizes = f"B={given['batch']} H={given['heads']} {given['dtype']}"
    return f"{passes}, {sizes}, {given['device']}{memory}"


def cells(row: Row) -> list[str]:
    """Returns the row as text; the peak of a row out of memory is part of the remark."""
    peak = row.peak_bytes
    remark = row.reason
    if row.status == OOM and peak is not None:
        remark += f"; the peak would be {mebibytes(peak)} MiB"
        peak = None
    if not remark and row.by not in ("simulated", "measured"):
        remark = row.by
    return [*first_cells(row), mebibytes(peak), row.status, remark]


def first_cells(row: Row) -> list[str]:
    """Returns the cells of the case, its times, and the memory before backward."""
    return [
        row.kernel,
        str(row.d),
        str(row.N),
        milliseconds(row.forward_ms),
        milliseconds(row.backward_ms),
        mebibytes(row.before_bytes),
    ]


def mebibytes(nbytes: int | None) -> str:
    """Returns the size in MiB with one decimal, as in the reference document."""
    return "-" if nbytes is None else format_in(nbytes, "MiB")


def milliseconds(value: float | None) -> str:
    """Returns the milliseconds with two decimals."""
    return "-" if value is None else f"{value:.2f}"


def notes(sweep: Sweep) -> Iterator[str]:
    """Yields the lines that explain the numbers."""
    workspace = max((row.workspace_bytes for row in sweep.rows), default=0)
    if workspace:
        yield f"memory is all allocated memory, {format_size(workspace)} of workspaces included"
    if "textbook" in sweep.kernels:
        yield (
            "textbook is attention with its softmax written out and a float causal mask; the"
            " bundled kernel standard works in place"
        )
    if any(row.by == "by growth" for row in sweep.rows):
        yield "by growth: too long to simulate; the exact polynomial through shorter lengths"
    if any(row.by == "by the model" for row in sweep.rows):
        yield "by the model: the memory of one rank, from the formulas of the kernel's memory model"
    for found in sweep.longest:
        name = f"{found['kernel']}, d={found['d']}"
        if found["N"] is None:
            yield f"longest that fits: {name}: {found['reason']}"
        else:
            sizes = [
                f"{metric} {format_size(nbytes)}"
                for metric in ("peak", "reserved")
                if (nbytes := found[f"{metric}_bytes"]) is not None
            ]
            yield f"longest that fits: {name}: N={found['N']:,}, {', '.join(sizes)}"
    if not sweep.complete:
        done = len(sweep.rows)
        yield f"interrupted: {format_count(done, 'row')} done; --resume continues"


def decompositions(sweep: Sweep) -> list[str]:
    """Returns a table of components for each row that has them."""
    lines: list[str] = []
    for row in sweep.rows:
        if not row.components or row.peak_bytes is None:
            continue
        parts = [
            (part.name, format_size(part.nbytes), part.count, part.growth, part.formula)
            for part in row.components
        ]
        peak = ("peak", format_size(row.peak_bytes), "", "", f"{row.peak_bytes:,} B")
        headers = ["component", "size", "tensors", "grows as", "bytes"]
        table = aligned([*parts, peak], headers, "lrrll")
        remark = "" if row.status == OK else f" with enough memory ({row.status} here)"
        lines += ["", f"{row.kernel}, d={row.d} N={row.N}: peak{remark}", *table]
    return [line.rstrip() for line in lines]


def to_csv(sweep: Sweep) -> str:
    """Returns all rows as CSV: bytes and milliseconds are numbers, missing values are empty."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in sweep.rows:
        values = (getattr(row, name) for name in _COLUMNS)
        writer.writerow("" if value is None else value for value in values)
    return text.getvalue()

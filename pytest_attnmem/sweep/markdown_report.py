"""The report of a sweep in Markdown; every sentence is computed from the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ..units import format_size
from .growth_steps import growth_steps, largest_that_fits, smallest_that_does_not
from .recommendations import recommendations
from .results import OK, OOM, Row, Sweep
from .text_table import filled, first_cells, mebibytes, notes, title


def render(sweep: Sweep) -> str:
    """Returns the text of the report."""
    sections = (
        _configuration(sweep),
        _results(sweep),
        _findings(sweep),
        _scaling(sweep),
        _accounting(sweep),
        recommendations(sweep),
    )
    lines = [f"# Attention benchmark: {', '.join(sweep.kernels)}"]
    for section in sections:
        lines += ["", *section]
    kept = [line for line, after in pairwise([*lines, ""]) if line or after]
    return "\n".join(kept) + "\n"


def _configuration(sweep: Sweep) -> Iterator[str]:
    parameters = sweep.parameters
    yield "## Configuration"
    yield ""
    yield f"- {title(sweep)}"
    yield f"- d: {parameters['d']}"
    yield f"- N: {parameters['n']}"
    if "passes" in parameters:
        passes, warmup = parameters["passes"], parameters["warmup"]
        yield f"- times: mean of {passes} passes after {warmup}, synchronised each"
    else:
        yield "- simulated: no times"
    yield from (f"- {line}" for line in notes(sweep))


def _results(sweep: Sweep) -> Iterator[str]:
    yield "## Results"
    yield ""
    headers = ("kernel", "d", "N", "forward (ms)", "backward (ms)", "memory before backward (MiB)")
    found, *rows = filled((*headers, "peak (MiB)", "status"), [_cells(row) for row in sweep.rows])
    yield from _table(found, rows)


def _cells(row: Row) -> list[str]:
    peak = mebibytes(row.peak_bytes)
    how = "" if row.by in ("simulated", "measured") else f", {row.by}"
    return [
        *first_cells(row),
        peak if row.status == OK else "-",
        f"{row.status}{how}" if row.status in (OK, OOM) else f"{row.status}: {row.reason}",
    ]


def _findings(sweep: Sweep) -> Iterator[str]:
    yield "## Key findings"
    yield ""
    for kernel in sweep.kernels:
        rows = [row for row in sweep.rows if row.kernel == kernel]
        fits, not_fits = largest_that_fits(rows), smallest_that_does_not(rows)
        if fits is not None:
            peak = f", peak {format_size(fits.peak_bytes)}" if fits.peak_bytes else ""
            yield f"- {kernel}: the largest that runs is d={fits.d} N={fits.N}{peak}"
        if not_fits is not None:
            nbytes = not_fits.peak_bytes
            peak = f"; its peak would be {format_size(nbytes)}" if nbytes else ""
            size = f"d={not_fits.d} N={not_fits.N}"
            yield f"- {kernel}: the smallest out of memory is {size}: {not_fits.reason}{peak}"
        elif fits is not None:
            yield f"- {kernel}: nothing ran out of memory"
        yield from _times(kernel, rows)


def _times(kernel: str, rows: Sequence[Row]) -> Iterator[str]:
    forward = [row.forward_ms for row in rows if row.forward_ms is not None]
    if not forward:
        return
    yield f"- {kernel}: forward passes took {min(forward):.2f} to {max(forward):.2f} ms"
    slower = [
        row.backward_ms / row.forward_ms for row in rows if row.forward_ms and row.backward_ms
    ]
    if slower:
        yield f"- {kernel}: backward took {min(slower):.1f} to {max(slower):.1f} times as long"


def _scaling(sweep: Sweep) -> Iterator[str]:
    steps = [*growth_steps(sweep)]
    if not steps:
        return
    measured = "memory before backward" if sweep.parameters["backward"] else "peak"
    yield "## How memory grows"
    yield ""
    yield f"The factor by which the {measured} grows with N, with and without the workspaces of"
    yield "libraries, and the power of N without workspaces: 1 is linear, 2 is quadratic."
    yield ""
    yield from _table(
        ("kernel", "d", "N", "N grows", "memory grows", "without workspaces", "power of N"),
        [
            [
                step.kernel,
                str(step.d),
                f"{step.shorter} → {step.longer}",
                f"{step.longer / step.shorter:g}x",
                f"{float(step.factor):.2f}x",
                f"{float(step.without_workspaces):.2f}x",
                f"{step.exponent:.2f}",
            ]
            for step in steps
        ],
    )


def _accounting(sweep: Sweep) -> Iterator[str]:
    for kernel in sweep.kernels:
        rows = [row for row in sweep.rows if row.kernel == kernel and row.components]
        row = smallest_that_does_not(rows) or largest_that_fits(rows)
        if row is None or row.peak_bytes is None:
            continue
        yield f"## Memory accounting: {kernel}, B={row.B} H={row.H} N={row.N} d={row.d}"
        yield ""
        yield from _formulas(row)
        would = "Its peak" if row.status == OK else "With enough memory, the peak"
        memory = sweep.parameters.get("memory_bytes")
        device = f" on a device of {format_size(memory)}" if memory else ""
        yield f"{would} is {format_size(row.peak_bytes)}{device}. It consists of:"
        yield ""
        parts = [
            [part.name, format_size(part.nbytes), part.growth, f"`{part.formula}`"]
            for part in row.components
        ]
        total = ["**peak**", f"**{format_size(row.peak_bytes)}**", "", f"{row.peak_bytes:,} B"]
        yield from _table(("component", "size", "grows as", "bytes"), [*parts, total])
        yield ""


def _formulas(row: Row) -> Iterator[str]:
    """Yields the sizes of inputs, output and scores."""
    itemsize = {"float64": 8, "float32": 4}.get(row.dtype, 2)
    one = row.B * row.H * row.N * row.d * itemsize
    scores = row.B * row.H * row.N**2 * itemsize
    yield f"q, k and v are {mebibytes(3 * one)} MiB, the output is {mebibytes(one)} MiB, and one"
    yield f"matrix of scores, B·H·N·N, is {mebibytes(scores)} MiB."


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    from tabulate import tabulate

    escaped = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    return tabulate(escaped, headers, tablefmt="github", disable_numparse=True).splitlines()

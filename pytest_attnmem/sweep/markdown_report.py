"""The report of a sweep in Markdown; every sentence is computed from the rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final, NamedTuple

from ..units import format_size
from .results import OK, OOM, Row, Sweep
from .text_table import filled, first_cells, mebibytes, notes, title


@dataclass(frozen=True, slots=True)
class GrowthStep:
    """The growth of a kernel's memory from one length to the next length with a number."""

    kernel: str
    d: int
    shorter: int
    longer: int
    factor: Fraction
    """The memory at the longer length divided by the memory at the shorter length."""
    without_workspaces: Fraction
    """The same factor for the memory of the case alone."""

    @property
    def exponent(self) -> float:
        """The power of N with which the memory of the case alone grew."""
        grown = float(self.without_workspaces)
        return math.log(grown) / math.log(self.longer / self.shorter)


def growth_steps(sweep: Sweep) -> Iterator[GrowthStep]:
    """Yields the steps of each kernel and width, in the order of lengths."""
    for (kernel, d), rows in sweep.lines().items():
        known = [(row, nbytes) for row in rows if (nbytes := growing_memory(row)) is not None]
        for (short, low), (long, high) in pairwise(known):
            if short.N == long.N or low <= short.workspace_bytes:
                continue
            own = Fraction(high - long.workspace_bytes, low - short.workspace_bytes)
            yield GrowthStep(kernel, d, short.N, long.N, Fraction(high, low), own)


def growing_memory(row: Row) -> int | None:
    """Returns the memory before the backward pass, or the peak of a row without one."""
    return row.before_bytes if row.backward else row.peak_bytes


def largest_that_fits(rows: Iterable[Row]) -> Row | None:
    """Returns the longest row that ran, the widest of several."""
    return max((row for row in rows if row.status == OK), key=_size, default=None)


def smallest_that_does_not(rows: Iterable[Row]) -> Row | None:
    """Returns the shortest row that ran out of memory, the narrowest of several."""
    return min((row for row in rows if row.status == OOM), key=_size, default=None)


def _size(row: Row) -> tuple[int, int]:
    return row.N, row.d


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
    itemsize = {"float64": 8, "float32": 4}.get(row.dtype, 2)
    one = row.B * row.H * row.N * row.d * itemsize
    scores = row.B * row.H * row.N**2 * itemsize
    yield f"q, k and v are {mebibytes(3 * one)} MiB, the output is {mebibytes(one)} MiB, and one"
    yield f"matrix of scores, B·H·N·N, is {mebibytes(scores)} MiB."


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    from tabulate import tabulate

    escaped = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    return tabulate(escaped, headers, tablefmt="github", disable_numparse=True).splitlines()


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
    sized = [row for row in sweep.rows if (row.N, row.d) == (base.N, base.d)]
    others = [row for row in sized if row.kernel != base.kernel]
    for number, remedy in enumerate(_REMEDIES, 1):
        yield f"{number}. **{remedy.name}** {remedy.description}."
        rows = [row for row in others if row.kernel.startswith(remedy.kernel)]
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
            return max(rows, key=_size)
    return None


def _saving(row: Row, base: Row) -> str:
    if row.peak_bytes is None or base.peak_bytes is None:
        return f"`{row.kernel}`: {row.status}, {row.reason}."
    text = f"`{row.kernel}` peaks at {format_size(row.peak_bytes)}"
    if row.status != OK:
        text += f" ({row.status} on this device)"
    text += f": {_compared(row.peak_bytes, base.peak_bytes)}."
    if row.before_bytes is not None and base.before_bytes is not None:
        kept, instead = format_size(row.before_bytes), format_size(base.before_bytes)
        text += f" Before the backward pass it needs {kept} instead of {instead}."
    if row.forward_ms and base.forward_ms:
        text += f" Its forward pass takes {row.forward_ms / base.forward_ms:.2f} times as long."
    return text


def _compared(peak: int, base: int) -> str:
    share = 100 * (base - peak) / base
    if share < 0:
        return f"{-share:.1f}% more"
    return f"{share:.1f}% less, a factor of {base / peak:.1f}"

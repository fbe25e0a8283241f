"""A sweep as a figure: memory over N with the device's limit, and times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..errors import AttnMemError
from ..sweep.results import OK, OOM, Row, Sweep
from ..units import format_size
from . import STYLES, figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MIB: Final = 1 << 20


def draw(sweep: Sweep) -> Figure:
    """Returns a figure of peaks over N, both logarithmic, and of times if there are any.

    Each kernel and width has a line; if there are more lines than styles, only the largest width of
    each kernel has one. Points without a mark are peaks that the device cannot hold.

    Raises:
        AttnMemError: there is no number to draw, or matplotlib is not installed.
    """
    lines = sweep.lines()
    if len(lines) > len(STYLES):
        widest = {kernel: max(d for name, d in lines if name == kernel) for kernel, _ in lines}
        lines = {key: rows for key, rows in lines.items() if widest[key[0]] == key[1]}
    timed = any(row.forward_ms is not None for rows in lines.values() for row in rows)
    if not any(row.peak_bytes is not None for rows in lines.values() for row in rows):
        raise AttnMemError("there is nothing to draw: no row of the sweep has a peak")
    drawn, axes = figure(2 if timed else 1, width=7.2, height=4.8)
    memory = axes[0] if timed else axes
    _memory(memory, lines, sweep)
    if timed:
        _times(axes[1], lines)
    return drawn


def draw_growth(entries: Sequence[dict[str, Any]]) -> Figure:
    """Returns a figure of growth over one symbol, from a session's JSON: one line for each test.

    Raises:
        AttnMemError: no entry varies exactly one symbol, or matplotlib is not installed.
    """
    alone = [
        entry for entry in entries if [*map(len, entry["sizes"].values())] == [len(entry["peaks"])]
    ]
    if not alone:
        raise AttnMemError("there is nothing to draw: no growth over one symbol in that session")
    symbols = sorted({symbol for entry in alone for symbol in entry["sizes"]})
    drawn, axes = figure(width=7.2, height=4.8)
    for place, entry in enumerate(alone):
        ((_, sizes),) = entry["sizes"].items()
        label = f"{entry['nodeid'].rpartition('::')[2]} {entry['region']}".strip()
        mebibytes = [peak / _MIB for peak in entry["peaks"]]
        axes.plot(sizes, mebibytes, label=label, **style(place))
    _dress(axes, ", ".join(symbols), "peak memory, MiB", "Growth of the peak")
    _ticks(axes, {size for entry in alone for sizes in entry["sizes"].values() for size in sizes})
    return drawn


def _memory(axes: Any, lines: dict[tuple[str, int], tuple[Row, ...]], sweep: Sweep) -> None:
    limit = sweep.parameters.get("memory_bytes")
    for place, ((kernel, d), rows) in enumerate(lines.items()):
        known = [row for row in rows if row.peak_bytes is not None]
        look = style(place)
        axes.plot(
            [row.N for row in known],
            [(row.peak_bytes or 0) / _MIB for row in known],
            label=f"{kernel}, d={d}",
            markevery=[place for place, row in enumerate(known) if row.status == OK],
            **look,
        )
        lost = [row.N for row in rows if row.status == OOM]
        if lost and limit:
            at = {"color": look["color"], "marker": "X", "markersize": 9, "linestyle": "none"}
            axes.plot(lost, [limit / _MIB] * len(lost), label="_out of memory", zorder=3, **at)
    if limit:
        name = str(sweep.parameters["device"]).removeprefix("simulated:")
        limited = f"{name}, {format_size(limit)}; X: out of memory"
        axes.axhline(limit / _MIB, color="black", linewidth=1, label=limited)
    of = sweep.parameters
    title = f"Peak memory, B={of['batch']} H={of['heads']} {of['dtype']}"
    _dress(axes, "N, tokens", "peak memory, MiB", title)
    _ticks(axes, {row.N for rows in lines.values() for row in rows})


def _times(axes: Any, lines: dict[tuple[str, int], tuple[Row, ...]]) -> None:
    for place, ((kernel, d), rows) in enumerate(lines.items()):
        for direction, filled in (("forward", "full"), ("backward", "none")):
            timed = [
                (row.N, value)
                for row in rows
                if (value := getattr(row, f"{direction}_ms")) is not None
            ]
            if timed:
                lengths, values = zip(*timed, strict=True)
                label = f"{kernel}, d={d}, {direction}"
                axes.plot(lengths, values, label=label, fillstyle=filled, **style(place))
    _dress(axes, "N, tokens", "time of a pass, ms", "Mean time")
    _ticks(axes, {row.N for rows in lines.values() for row in rows})


def _dress(axes: Any, across: str, up: str, title: str) -> None:
    axes.set(xscale="log", yscale="log", xlabel=across, ylabel=up, title=title)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.legend(fontsize=8, handlelength=4)


def _ticks(axes: Any, sizes: Iterable[int]) -> None:
    at = sorted(sizes)
    axes.set_xticks(at, [f"{size:,}" for size in at], rotation=30 if len(at) > 6 else 0)
    axes.set_xticks([], minor=True)

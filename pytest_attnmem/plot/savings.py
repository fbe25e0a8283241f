"""The ratio of the memory of two attentions, as one bar for each length."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import AttnMemError
from ..profiling import ScalingRow
from . import figure, style
from .scaling import label_of, some

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(rows: Iterable[ScalingRow], *, of: str = "linear", over: str = "standard") -> Figure:
    """Returns a figure with bars of ``over / of`` and their numbers; OOM bars have no height.

    Raises:
        AttnMemError: no row is given, a row lacks a kernel, or matplotlib is not installed.
    """
    rows = sorted(rows, key=lambda row: row.seq_len)
    some(rows)
    for kernel in (of, over):
        if lacking := [row.seq_len for row in rows if kernel not in row.peaks]:
            there = ", ".join(rows[0].peaks)
            raise AttnMemError(
                f"no savings to draw: {kernel} was not measured at N={lacking[0]}; that row has"
                f" {there}"
            )
    drawn, axes = figure()
    for place, row in enumerate(rows):
        less, more = row.peaks[of].measured_bytes, row.peaks[over].measured_bytes
        ratio = more / less if less and more else 0.0
        axes.bar(place, ratio, color=style(0)["color"])
        axes.annotate(
            f"{ratio:.1f}x" if ratio else "OOM",
            (place, ratio),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            fontweight="bold",
        )
    axes.set_title(f"Memory savings of {label_of(of).lower()} attention")
    axes.set_xlabel("sequence length, tokens")
    axes.set_ylabel(f"peak of {label_of(over).lower()} / peak of {label_of(of).lower()}, times")
    axes.set_xticks(range(len(rows)), [str(row.seq_len) for row in rows])
    axes.grid(False, axis="x")
    axes.margins(y=0.12)
    return drawn

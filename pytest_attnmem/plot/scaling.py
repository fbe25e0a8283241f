"""Memory over the sequence length: standard attention, and the kernels of a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..errors import AttnMemError
from ..profiling import ScalingRow
from . import figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MIB: Final = 1 << 20

#: The labels of the notebook's kernels; other kernels have their names as labels.
_LABELS: Final = (
    ("standard", "Standard"),
    ("linear", "Linear (bidir)"),
    ("linear-causal", "Linear (causal)"),
)

#: The lines of the figure of standard attention.
_PARTS: Final = (
    ("attention_matrix_memory", "Attention matrix"),
    ("input_memory", "Q, K and V"),
    ("output_memory", "Output"),
    ("peak_memory", "Peak above Q, K and V"),
)


def draw_quadratic(stats: Mapping[int, Mapping[str, int]]) -> Figure:
    """Returns the figure of a ``profile_memory_scaling``, or of estimates by length.

    Raises:
        AttnMemError: no length is given, or matplotlib is not installed.
    """
    lengths = sorted(stats)
    some(lengths)
    drawn, axes = figure()
    for place, (part, label) in enumerate(_PARTS):
        if part in stats[lengths[0]]:  # an estimate has no peak
            _line(axes, lengths, [stats[N][part] for N in lengths], label=label, **style(place))
    for N in lengths:
        matrix = stats[N]["attention_matrix_memory"] / _MIB
        _note(axes, f"{matrix:.4g} MiB", (N, matrix), (4, -9), ha="left")
    axes.margins(x=0.2)
    _dress(axes, "Memory of standard attention", "memory, MiB", lengths)
    return drawn


def draw(rows: Iterable[ScalingRow]) -> Figure:
    """Returns a figure of two panels: measured memory, and measured memory with the theory.

    Sizes are above the inputs. A mark at the upper edge shows a length at which memory ran out.

    Raises:
        AttnMemError: no row is given, or matplotlib is not installed.
    """
    rows = sorted(rows, key=lambda row: row.seq_len)
    some(rows)
    drawn, (left, right) = figure(2)
    lengths = [row.seq_len for row in rows]
    for place, kernel in enumerate(rows[0].peaks):
        measured = [row.peaks[kernel].measured_bytes for row in rows]
        _line(left, lengths, measured, label=label_of(kernel), **style(place))
        _mark_out_of_memory(left, lengths, measured, place)
        theory = [row.peaks[kernel].theoretical_bytes for row in rows]
        _line(right, lengths, measured, label=f"{label_of(kernel)}, measured", **_points(place))
        looks = {**style(place), "marker": ""}
        _line(right, lengths, theory, label=f"{label_of(kernel)}, theory", **looks)
    _dress(left, "Empirical memory", "peak memory above the inputs, MiB", lengths)
    _dress(right, "Theory and measurement", "peak memory above the inputs, MiB", lengths)
    return drawn


def label_of(kernel: str) -> str:
    """Returns the label of a kernel."""
    return dict(_LABELS).get(kernel, kernel)


def some(found: Sequence[Any]) -> None:
    """Raises AttnMemError if no length is given."""
    if not found:
        raise AttnMemError("there is nothing to draw: no sequence length was measured")


def _line(axes: Any, lengths: list[int], sizes: Sequence[int | None], **looks: Any) -> None:
    """Draws a line with a gap where memory ran out."""
    axes.plot(lengths, [float("nan") if size is None else size / _MIB for size in sizes], **looks)


def _points(place: int) -> dict[str, Any]:
    return {**style(place), "linestyle": "", "markersize": 9, "fillstyle": "none"}


def _mark_out_of_memory(
    axes: Any, lengths: list[int], sizes: Sequence[int | None], place: int
) -> None:
    edge = axes.get_xaxis_transform()
    height = 0.96 - 0.07 * place  # below the mark of the previous line
    for N, size in zip(lengths, sizes, strict=True):
        if size is None:
            axes.plot([N], [height], transform=edge, **{**_points(place), "markersize": 6})
            _note(axes, "OOM", (N, height), (-6, 0), ha="right", va="center", xycoords=edge)


def _note(
    axes: Any, text: str, point: tuple[float, float], offset: tuple[int, int], **looks: Any
) -> None:
    axes.annotate(text, point, xytext=offset, textcoords="offset points", fontsize=8, **looks)


def _dress(axes: Any, title: str, up: str, lengths: list[int]) -> None:
    axes.set_title(title)
    axes.set_xlabel("sequence length, tokens")
    axes.set_ylabel(up)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths, [str(N) for N in lengths])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:,.6g}")
    axes.legend(loc="best")

"""Figures, through matplotlib, which the extra ``plot`` brings; legible without colour too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import AttnMemError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The kinds of file that a figure is saved as.
SUFFIXES: Final = (".png", ".svg")

#: How the lines of a figure differ, in turn: a colour that prints dark, a marker and a dash each.
STYLES: Final = (
    ("#1b4f8f", "o", "-"),
    ("#b3401c", "s", "--"),
    ("#2a7d4f", "^", "-."),
    ("#7a3b93", "D", ":"),
    ("#8a6d00", "v", (0, (5, 1, 1, 1, 1, 1))),
    ("#3c3c3c", "x", (0, (1, 1))),
)


def style(place: int) -> dict[str, Any]:
    """What sets the ``place``-th line of a figure apart."""
    colour, marker, dash = STYLES[place % len(STYLES)]
    return {"color": colour, "marker": marker, "linestyle": dash}


def figure(columns: int = 1, *, width: float = 6.4, height: float = 4.4) -> tuple[Figure, Any]:
    """A figure with ``columns`` axes side by side, each that many inches wide; and its axes.

    Drawn without pyplot: nothing global is touched, no screen is needed.

    Raises:
        AttnMemError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise AttnMemError(
            "figures need matplotlib, which is not installed; pip install 'pytest-attnmem[plot]'"
        ) from error
    drawn = Figure(figsize=(columns * width, height), layout="constrained")
    axes = drawn.subplots(1, columns, squeeze=False)[0]
    for one in axes:
        one.grid(True, alpha=0.3)
        one.set_axisbelow(True)
    return drawn, axes[0] if columns == 1 else axes


def save(drawn: Figure, path: Path) -> None:
    """Write the figure, as its suffix says; the same figure gives the same file.

    Raises:
        AttnMemError: the suffix is none of a picture, or the file cannot be written.
    """
    if path.suffix not in SUFFIXES:
        raise AttnMemError(f"cannot draw {path.name}: its name must end in .png or .svg")
    import matplotlib

    kind = path.suffix[1:]
    # Neither the time nor matplotlib's version, so that a figure is only new where its data are.
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    try:
        with matplotlib.rc_context({"svg.hashsalt": "attnmem"}):
            drawn.savefig(path, format=kind, dpi=150, metadata=metadata)
    except OSError as error:
        raise AttnMemError(f"cannot write {path}: {error.strerror or error}") from error

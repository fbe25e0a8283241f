"""Figures drawn by matplotlib (the extra ``plot``), readable without colour too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import AttnMemError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The suffixes of the files that a figure can be saved to.
SUFFIXES: Final = (".png", ".svg")

#: The colour, which prints dark, the marker and the dash of each line of a figure.
STYLES: Final = (
    ("#1b4f8f", "o", "-"),
    ("#b3401c", "s", "--"),
    ("#2a7d4f", "^", "-."),
    ("#7a3b93", "D", ":"),
    ("#8a6d00", "v", (0, (5, 1, 1, 1, 1, 1))),
    ("#3c3c3c", "x", (0, (1, 1))),
)


def style(place: int) -> dict[str, Any]:
    """Returns the style of the ``place``-th line of a figure, for matplotlib."""
    colour, marker, dash = STYLES[place % len(STYLES)]
    return {"color": colour, "marker": marker, "linestyle": dash}


def figure(columns: int = 1, *, width: float = 6.4, height: float = 4.4) -> tuple[Figure, Any]:
    """Returns a figure, and its ``columns`` axes side by side; width and height are in inches.

    It does without pyplot, so it changes nothing global and needs no screen.

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
    """Writes a figure in the format of the suffix; equal figures give equal files.

    Raises:
        AttnMemError: the suffix is not .png or .svg, or the file cannot be written.
    """
    if path.suffix not in SUFFIXES:
        raise AttnMemError(f"cannot draw {path.name}: its name must end in .png or .svg")
    import matplotlib

    kind = path.suffix[1:]
    # Without the time and the version of matplotlib, a file changes only if its data change.
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    try:
        with matplotlib.rc_context({"svg.hashsalt": "attnmem"}):
            drawn.savefig(path, format=kind, dpi=150, metadata=metadata)
    except OSError as error:
        raise AttnMemError(f"cannot write {path}: {error.strerror or error}") from error

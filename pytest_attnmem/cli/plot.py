"""Draw the results of a sweep, or the growth that a pytest session measured."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from ..contents import json_of
from ..errors import AttnMemError
from ..plot import save
from ..plot.sweep_figure import draw, draw_growth
from ..sweep import results
from .terminal import progress


def add_arguments(parser: ArgumentParser) -> None:
    """``sweep.json -o sweep.png``."""
    parser.epilog = "FILE is written by attnmem sweep --json or by pytest --attnmem-json."
    parser.add_argument("file", metavar="FILE", help="the JSON file of a sweep or a session")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="PATH",
        help="the figure; its name ends in .png or .svg",
    )


def execute(arguments: Namespace) -> int:
    """Writes the figure.

    Raises:
        AttnMemError: the file contains nothing to draw, or the figure cannot be written.
    """
    path = Path(arguments.file)
    with progress(f"drawing {path.name}"):
        growth = _growth(path)
        drawn = draw(results.load(path)) if growth is None else draw_growth(growth)
        save(drawn, Path(arguments.output))
    return 0


def _growth(path: Path) -> list[dict[str, Any]] | None:
    """Returns the growth that a session measured; None for a file of a sweep."""
    data = json_of(path)
    if not isinstance(data, dict) or not {"kind", "results"} & data.keys():
        raise AttnMemError(
            f"cannot read {path}: it is not a JSON file of attnmem sweep or of pytest"
            " --attnmem-json"
        )
    if "results" not in data:
        return None
    from ..report.json import load

    records, _ = load(path)
    return [
        {"nodeid": record.nodeid, "region": record.region, **growth}
        for record in records
        for growth in record.growth
    ]

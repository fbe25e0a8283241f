"""Write reports of what a session measured, from its JSON file."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from ..report import KINDS, render, write
from .merge import merge


def add_arguments(parser: ArgumentParser) -> None:
    """``memory.json --html memory.html --github``."""
    parser.epilog = (
        "The files are those that the session would have written. Several JSON files are merged,"
        " as by attnmem merge. A path of - is standard output; without any option, the table of"
        " --attnmem-report is printed."
    )
    parser.add_argument("results", nargs="+", type=Path, metavar="JSON")
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=Path, metavar="PATH")
    parser.add_argument(
        "--github", action="store_true", help="annotate failures, and add to the step's summary"
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="the rootdir of the session, for --github (default: the working directory)",
    )


def execute(arguments: Namespace) -> int:
    """Write what is asked for.

    Raises:
        AttnMemError: a file cannot be read or written, or they do not go together.
    """
    from ..report.github import add_to_step_summary, workflow_commands
    from ..report.terminal import render_line, render_table

    summary, environment = merge(arguments.results)
    paths = {kind: path for kind in KINDS if (path := getattr(arguments, kind)) is not None}
    for kind, path in paths.items():
        write(path, render(kind, summary, environment))
    if arguments.github:
        lines = [*workflow_commands(summary, arguments.root, os.environ)]
        write(Path("-"), "".join(f"{line}\n" for line in lines))
        add_to_step_summary(summary, os.environ)
    if not paths and not arguments.github:
        lines = [*render_table(summary), render_line(summary, hint=False)]
        write(Path("-"), "\n".join(lines) + "\n")
    return 0

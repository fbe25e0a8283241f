"""Write the reports of a session from its JSON file."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from ..report import KINDS, render, write
from .merge import merge
from .terminal import painted, width


def add_arguments(parser: ArgumentParser) -> None:
    """``memory.json --html memory.html --github``."""
    parser.epilog = (
        "The reports are the same as the session writes. Several JSON files are merged as by"
        " attnmem merge. The path - is standard output. Without an option, the table of"
        " --attnmem-report is printed."
    )
    parser.add_argument(
        "results", nargs="+", type=Path, metavar="JSON", help="the files of the session"
    )
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=Path, metavar="PATH", help=f"write the {kind} report")
    parser.add_argument(
        "--github",
        action="store_true",
        help="annotate failures on GitHub, and add to the step summary",
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="the rootdir of the session, for --github (default: the working directory)",
    )


def execute(arguments: Namespace) -> int:
    """Writes the requested reports.

    Raises:
        AttnMemError: a file cannot be read or written, or the files cannot be merged.
    """
    from ..report.github import add_to_step_summary, workflow_commands
    from ..report.terminal import colour_of, render_line, render_notes, render_table

    summary, environment = merge(arguments.results)
    paths = {kind: path for kind in KINDS if (path := getattr(arguments, kind)) is not None}
    for kind, path in paths.items():
        write(path, render(kind, summary, environment))
    if arguments.github:
        lines = [*workflow_commands(summary, arguments.root, os.environ)]
        write(Path("-"), "".join(f"{line}\n" for line in lines))
        add_to_step_summary(summary, os.environ)
    if not paths and not arguments.github:
        lines = [painted(render_line(summary, hint=False), colour_of(summary)), ""]
        for line in render_table(summary, width()):
            lines.append(line.text + painted(line.outcome, line.colour) + line.rest)
        lines += ["", *render_notes(summary)]
        write(Path("-"), "\n".join(lines).rstrip() + "\n")
    return 0

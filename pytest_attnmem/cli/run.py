"""Run a Python program on the null device, as one process or as many ranks; print its peaks."""

from __future__ import annotations

import json
import os
import shutil
import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AttnMemError, BackendUnavailable
from ..measurement.values_limit import VALUES_LIMIT, parse_values_limit
from ..profiles import DEFAULT_PROFILE
from ..report import check_output_path, write
from . import run_ranks

if TYPE_CHECKING:
    from ..nulldevice.launch import Devices


def add_arguments(parser: ArgumentParser) -> None:
    """``--device 2xH100 --json PATH -- script.py arguments``."""
    parser.add_argument(
        "--device",
        default=DEFAULT_PROFILE,
        metavar="PROFILE",
        help=f"such as H100, or 8xH100 for eight devices (default: {DEFAULT_PROFILE})",
    )
    parser.add_argument(
        "--values-limit",
        default=VALUES_LIMIT,
        metavar="FLOPS",
        help="compute no value that takes more floating-point operations: a number is then NaN"
        f" (default: {VALUES_LIMIT})",
    )
    parser.add_argument("--json", metavar="PATH", help="write the peaks to this file as well")
    parser.add_argument(
        "--ranks", type=int, metavar="W", help="run it as ranks of a world of this size"
    )
    parser.add_argument(
        "--rank",
        default="0,last",
        metavar="LIST",
        help="the ranks to run, such as 0,last, 0-3 or all (default: 0,last)",
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=1,
        metavar="N",
        help="run so many ranks at a time (default: 1)",
    )
    parser.add_argument(
        "program",
        nargs=REMAINDER,
        metavar="-- program",
        help="script.py, -m module, -c code, or python …",
    )


def execute(arguments: Namespace) -> int:
    """Replaces this process by the program, on the null device; runs it once a rank with --ranks.

    Raises:
        AttnMemError: the JSON file cannot be created, or there are no such ranks.
        BackendUnavailable: no program was given, or the null device does not run on this machine.
    """
    from ..nulldevice.launch import devices, reexec

    program = _python_program(arguments.program)
    path = os.path.abspath(arguments.json) if arguments.json else ""
    check_output_path("json", path)
    try:
        limit = str(parse_values_limit(arguments.values_limit))
    except AttnMemError as error:
        raise AttnMemError(f"--values-limit: {error}") from None
    host = [sys.executable, "-m", "pytest_attnmem.backends.null.program"]
    wanted = devices(arguments.device)
    if arguments.ranks is None:
        reexec([*host, path, limit, *program], wanted)
    return _run_ranks(arguments, wanted, path, host, [limit, *program])


def _run_ranks(
    arguments: Namespace, wanted: Devices, path: str, host: list[str], program: list[str]
) -> int:
    """Runs the ranks and prints their peaks; returns the first exit code that is not 0."""
    world = arguments.ranks
    if world < 1:
        raise AttnMemError(f"--ranks: found {world}; expected 1 or more, as in --ranks 8")
    if wanted.number == 1:
        wanted = wanted._replace(number=min(world, run_ranks.PER_NODE))
    ranks = run_ranks.rank_list(arguments.rank, world)
    runs = run_ranks.run_ranks(host, program, wanted, world, ranks, max(1, arguments.processes))
    for line in run_ranks.render(wanted, world, runs):
        print(line, file=sys.stderr)
    if path:
        text = json.dumps(run_ranks.as_json(wanted, world, runs), indent=1)
        write(Path(path), text + "\n")
    return next((run.exit_code for run in runs if run.exit_code), 0)


def _python_program(words: list[str]) -> list[str]:
    """Returns ``script.py …``, ``-m module …`` or ``-c code …`` from the words after ``--``."""
    if words[:1] == ["--"]:
        words = words[1:]
    if words and os.path.basename(words[0]).startswith("python"):
        words = words[1:]
    if not words:
        raise BackendUnavailable("give a program: attnmem run --device H100 -- script.py arguments")
    first = words[0]
    if first in ("-m", "-c") and len(words) > 1:
        return words
    if first.startswith("-"):
        raise BackendUnavailable(f"expected script.py, -m module or -c code, got {first!r}")
    path = first if os.path.exists(first) else shutil.which(first)
    if path is None:
        raise BackendUnavailable(f"there is no program {first!r}")
    if os.path.isdir(path) or not (path.endswith((".py", ".pyz")) or _by_python(path)):
        raise BackendUnavailable(f"{first!r} is not a Python program; give script.py or -m module")
    return [path, *words[1:]]


def _by_python(path: str) -> bool:
    with open(path, "rb") as file:
        line = file.readline(256)
    return line.startswith(b"#!") and b"python" in line

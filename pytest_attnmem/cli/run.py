"""Run a Python program on the null device, and print its peaks."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import REMAINDER, ArgumentParser, Namespace

from ..errors import AttnMemError, BackendUnavailable
from ..measurement.values_limit import VALUES_LIMIT, parse_values_limit
from ..profiles import DEFAULT_PROFILE
from .output_path import check_output_path


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
        "program", nargs=REMAINDER, metavar="-- program", help="script.py, -m module, or python …"
    )


def execute(arguments: Namespace) -> int:
    """Replaces this process by the program, on the null device.

    Raises:
        AttnMemError: the JSON file cannot be created.
        BackendUnavailable: no program was given, or the null device does not run on this machine.
    """
    from ..nulldevice.launch import devices, reexec

    program = _python_program(arguments.program)
    path = os.path.abspath(arguments.json) if arguments.json else ""
    if path:
        check_output_path("json", path)
    try:
        limit = str(parse_values_limit(arguments.values_limit))
    except AttnMemError as error:
        raise AttnMemError(f"--values-limit: {error}") from None
    runner = [sys.executable, "-m", "pytest_attnmem.backends.null.program", path, limit, *program]
    reexec(runner, devices(arguments.device))


def _python_program(words: list[str]) -> list[str]:
    """Returns ``script.py …`` or ``-m module …`` from the words after ``--``."""
    if words[:1] == ["--"]:
        words = words[1:]
    if words and os.path.basename(words[0]).startswith("python"):
        words = words[1:]
    if not words:
        raise BackendUnavailable("give a program: attnmem run --device H100 -- script.py arguments")
    first = words[0]
    if first == "-m" and len(words) > 1:
        return words
    if first.startswith("-"):
        raise BackendUnavailable(f"expected script.py or -m module, got {first!r}")
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

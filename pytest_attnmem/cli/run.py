"""Run a Python program on the null device, and print its peaks."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from pathlib import Path

from ..errors import BackendUnavailable
from ..profiles import DEFAULT_PROFILE


def add_arguments(parser: ArgumentParser) -> None:
    """``--device 2xH100 --json PATH -- script.py arguments``."""
    parser.add_argument(
        "--device",
        default=DEFAULT_PROFILE,
        metavar="PROFILE",
        help=f"such as H100, or 8xH100 for eight (default: {DEFAULT_PROFILE})",
    )
    parser.add_argument("--json", metavar="PATH", help="write the peaks to this file as well")
    parser.add_argument(
        "program", nargs=REMAINDER, metavar="-- program", help="script.py, -m module, or python …"
    )


def execute(arguments: Namespace) -> int:
    """Become the program, on the null device.

    Raises:
        BackendUnavailable: there is no program, or no null device to be had here.
    """
    from ..nulldevice.launch import devices, reexec

    program = _python_program(arguments.program)
    path = os.path.abspath(arguments.json) if arguments.json else ""
    if path and not Path(path).parent.is_dir():
        raise BackendUnavailable(f"--json: there is no directory {Path(path).parent}")
    runner = [sys.executable, "-m", "pytest_attnmem.nulldevice.program", path, *program]
    reexec(runner, devices(arguments.device))


def _python_program(words: list[str]) -> list[str]:
    """``script.py …`` or ``-m module …``, for whatever way to start it was given."""
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
        raise BackendUnavailable(f"{first!r} is no Python program; give script.py or -m module")
    return [path, *words[1:]]


def _by_python(path: str) -> bool:
    with open(path, "rb") as file:
        line = file.readline(256)
    return line.startswith(b"#!") and b"python" in line

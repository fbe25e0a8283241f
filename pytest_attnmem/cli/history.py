"""Show how the memory of a project's code moved over its commits."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ..backends.registry import BACKENDS, check_name
from ..budgets.tolerance import Tolerance, parse_tolerance
from ..commits.repository import Repository
from ..errors import AttnMemError
from ..history.page import page
from ..history.project_history import ProjectHistory, Step, read_history, to_json
from ..history.steps import with_session
from ..history.text import markdown, table
from ..report import write
from ..units import excerpt
from .bisect import uncommitted
from .history_measurement import measured_history
from .output_path import check_output_path
from .progress import progress

_OUTPUTS: Final = ("json", "markdown", "html")


def add_arguments(parser: ArgumentParser) -> None:
    """``v1.0..main -- tests/test_attention.py``."""
    parser.usage = "%(prog)s [options] [FIRST..LAST] [-- tests and options of pytest]"
    parser.epilog = (
        "Commits with the same files are measured once, and kept: the next run measures new"
        " commits alone, and an interrupted run goes on. Your files, index and stashes are not"
        " touched. Each commit runs its code, as its tests would: measure only what you would run."
    )
    parser.add_argument(
        "range",
        metavar="FIRST..LAST",
        nargs="?",
        default="HEAD",
        help="the commits, such as v1.0..main; LAST alone for all up to it (default: HEAD)",
    )
    parser.add_argument(
        "--backend",
        default="simulated:H100",
        metavar="NAME",
        help="as of pytest --attnmem-backend (default: simulated:H100)",
    )
    parser.add_argument(
        "--program",
        type=Path,
        metavar="FILE",
        help="measure the public functions of this file in place of tests",
    )
    parser.add_argument(
        "--tests-from",
        default="newest",
        metavar="FROM",
        help="newest: the tests of the last commit at every commit; each: each commit's own; or"
        " those of a COMMIT, or of a FOLDER such as . (default: newest)",
    )
    parser.add_argument(
        "--paths",
        action="append",
        default=[],
        metavar="PATH",
        help="the code: only this file or folder, and the tests, are there",
    )
    parser.add_argument("--since", default="", metavar="DATE", help="only newer commits, as of git")
    parser.add_argument(
        "--first-parent", action="store_true", help="a merge is one commit: not what it merged"
    )
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="every Nth commit of the first parents"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="processes that measure (default: 1)"
    )
    parser.add_argument(
        "--shard",
        default="1/1",
        metavar="I/N",
        help="measure one of N parts; attnmem merge joins their JSON files",
    )
    parser.add_argument(
        "--import",
        dest="modules",
        action="append",
        default=[],
        metavar="MODULE",
        help="an installed module to import once, before the commits",
    )
    parser.add_argument(
        "--stand-in",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="a package that the code imports and does not call, and that is not here",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="leave out a commit whose tests take longer (default: 600)",
    )
    parser.add_argument(
        "--fail-on",
        metavar="T",
        help="exit with 1 if a row grew by more in one step, such as 2%%+1MiB, and did not shrink",
    )
    parser.add_argument(
        "--from",
        dest="file",
        type=Path,
        metavar="HISTORY",
        help="show the JSON of a history, and measure nothing",
    )
    parser.add_argument(
        "--add",
        type=Path,
        metavar="SESSION",
        help="with --from: add the results of pytest --attnmem-json as those of HEAD",
    )
    for name, what in zip(_OUTPUTS, ("JSON", "Markdown", "an HTML page"), strict=True):
        parser.add_argument(
            f"--{name}", metavar="PATH", help=f"write it as {what}; - prints it, not the table"
        )


def execute(arguments: Namespace) -> int:
    """Prints the rows and their steps; returns 1 if one grew by more than it may.

    Raises:
        AttnMemError: an option or a commit is wrong, or git fails.
    """
    limit = parse_tolerance(arguments.fail_on, "--fail-on") if arguments.fail_on else None
    _check_outputs(arguments)
    notes: list[str] = []
    if arguments.file is not None or arguments.add is not None:
        found = _from_files(arguments)
    else:
        _check(arguments)
        repository = Repository(Path.cwd())
        with progress("reading the commits") as show:
            found, problem = measured_history(arguments, repository, show)
        notes += uncommitted(repository)
        notes += [f"results are not kept: {excerpt(problem, 200)}"] if problem else []
    _write(found, arguments)
    if "-" not in (arguments.json, arguments.markdown, arguments.html):
        print("\n".join([*table(found), *notes]))
    return int(limit is not None and any(_is_worse(step, limit) for step in found.steps))


def _from_files(arguments: Namespace) -> ProjectHistory:
    found = read_history(arguments.file) if arguments.file is not None else None
    if arguments.add is not None:
        return with_session(found, arguments.add, Repository(Path.cwd()))
    if found is None:
        raise AttnMemError(f"--from: {arguments.file} is not the JSON of a history")
    return found


def _check_outputs(arguments: Namespace) -> None:
    for name in _OUTPUTS:
        path = getattr(arguments, name)
        if path not in (None, "-"):
            check_output_path(name, path)


def _check(arguments: Namespace) -> None:
    check_name(arguments.backend, BACKENDS)
    for name in ("every", "jobs", "timeout"):
        if not getattr(arguments, name) > 0:
            value = getattr(arguments, name)
            raise AttnMemError(f"--{name}: expected a number above 0, got {value:g}")
    if arguments.program is None and not arguments.tests and arguments.tests_from != "each":
        raise AttnMemError(
            "expected tests after --, as in -- tests/test_memory.py, or --program FILE"
        )
    if find_spec("torch") is None:
        raise AttnMemError("needs torch, which is not installed; pip install torch")


def _write(found: ProjectHistory, arguments: Namespace) -> None:
    makers: dict[str, Callable[[ProjectHistory], str]] = {
        "json": to_json,
        "markdown": lambda found: "\n".join([*markdown(found), ""]),
        "html": page,
    }
    for name, make in makers.items():
        if path := getattr(arguments, name):
            write(Path(path), make(found))


def _is_worse(step: Step, limit: Tolerance) -> bool:
    return not step.ended_by and step.delta > limit.allowance(step.before)

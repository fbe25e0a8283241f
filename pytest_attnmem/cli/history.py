"""Show how the memory of a project's code moved over its commits."""

from __future__ import annotations

import platform
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from ..budgets.tolerance import parse_tolerance
from ..commits.commit_files import FixedTests, fixed_tests
from ..commits.repository import Listed, Repository
from ..errors import AttnMemError
from ..history.kept_results import kept_results
from ..history.measurer import Measurer, Setting
from ..history.page import page
from ..history.program import program
from ..history.project_history import Point, ProjectHistory, read_history, to_json
from ..history.steps import find_steps, joined, with_session
from ..history.text import markdown, table
from ..nulldevice.kept_build import user_cache
from ..report import check_output_path, write
from ..units import excerpt
from .bisect import relative_to_here, uncommitted
from .commit_backend import DEFAULT, add_backend, backend_at, check_backend
from .terminal import progress

_OUTPUTS: Final = ("json", "markdown", "html")


def add_arguments(parser: ArgumentParser) -> None:
    """``v1.0..main -- tests/test_attention.py``."""
    parser.usage = (
        "%(prog)s [options] [FIRST..LAST] (-- tests and options of pytest | --program FILE)"
    )
    parser.epilog = (
        "It needs the tests after --, or --program; --tests-from each alone runs all tests of each"
        " commit. Commits with the same files are measured once, and kept: the next run measures"
        " new commits alone, and an interrupted run goes on. Your files, index and stashes are not"
        " touched. Each commit runs its code, as its tests would: measure only what you would run."
    )
    parser.add_argument(
        "range",
        metavar="FIRST..LAST",
        nargs="?",
        default="HEAD",
        help="the commits, such as v1.0..main; LAST alone for all up to it (default: HEAD)",
    )
    add_backend(parser, "last")
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
    for name in _OUTPUTS:
        check_output_path(name, getattr(arguments, name))
    notes: list[str] = []
    if arguments.file is not None or arguments.add is not None:
        found = _from_files(arguments)
    else:
        _check(arguments)
        repository = Repository(Path.cwd())
        with progress("reading the commits", lines=True) as show:
            found, problem = measured_history(arguments, repository, show)
        written = filter(None, (getattr(arguments, name) for name in _OUTPUTS))
        notes += uncommitted(
            repository, [relative_to_here(path, repository.root) for path in written]
        )
        notes += [f"results are not kept: {excerpt(problem, 200)}"] if problem else []
    _write(found, arguments)
    if "-" not in (arguments.json, arguments.markdown, arguments.html):
        print("\n".join([*table(found), *notes]))
    if limit is None:
        return 0
    lasting = (step for step in found.steps if not step.ended_by)
    return int(any(step.delta > limit.allowance(step.before) for step in lasting))


def _from_files(arguments: Namespace) -> ProjectHistory:
    found = read_history(arguments.file) if arguments.file is not None else None
    if arguments.add is not None:
        return with_session(found, arguments.add, Repository(Path.cwd()))
    if found is None:
        raise AttnMemError(f"--from: {arguments.file} is not the JSON of a history")
    return found


def _check(arguments: Namespace) -> None:
    check_backend(arguments.backend, arguments.tests)
    for name in ("every", "jobs", "timeout"):
        if not (value := getattr(arguments, name)) > 0:
            raise AttnMemError(f"--{name}: expected a number above 0, got {value:g}")
    if arguments.program is None and not arguments.tests and arguments.tests_from != "each":
        raise AttnMemError(
            "expected tests after --, as in -- tests/test_memory.py, or --program FILE;"
            " --tests-from each runs all tests of each commit"
        )


def _write(found: ProjectHistory, arguments: Namespace) -> None:
    makers: dict[str, Callable[[ProjectHistory], str]] = {
        "json": to_json,
        "markdown": lambda found: "\n".join([*markdown(found), ""]),
        "html": page,
    }
    for name, make in makers.items():
        if path := getattr(arguments, name):
            write(Path(path), make(found))


#: Changes of these alone are no commits of the code.
_NO_CODE: Final = tuple(
    f":(top,exclude,glob){pattern}"
    for pattern in ("**/*.md", "**/*.rst", "docs/**", ".github/**", "LICENSE*", ".gitignore")
)


def measured_history(
    arguments: Namespace, repository: Repository, show: Callable[[str], None]
) -> tuple[ProjectHistory, str]:
    """Returns the history, and why results are not kept, such as a full disk.

    Raises:
        AttnMemError: an option or a commit is wrong, or git fails.
    """
    with tempfile.TemporaryDirectory(prefix="attnmem-") as folder:
        if ".." in arguments.range:
            start, end = repository.ends(arguments.range)
        else:  # all commits up to it
            start, end = "", repository.resolved(arguments.range)
        setting = _setting(arguments, repository, end, Path(folder).resolve())
        listed = _listed(arguments, repository, start, end)
        trees = repository.trees([one.sha for one in listed], setting.paths)
        facts = _facts(arguments, setting.backend)
        kept = kept_results(
            user_cache() / "history",
            [
                *(setting.backend, facts["torch"], setting.words, setting.stand_ins, setting.paths),
                *(setting.program and setting.program.digest, _tests(setting.tests, repository)),
            ],
        )
        measurer = Measurer(setting, kept, show)
        measured = measurer.measure(trees, arguments.jobs)
        told = repository.describe([one.sha for one in listed])
        points = tuple(
            Point(
                *(one.sha, one.parents),
                *(told[one.sha].author, told[one.sha].date, told[one.sha].subject),
                *(measured[one.sha], trees[one.sha]),
            )
            for one in listed
        )
        found = ProjectHistory(repository.name, facts, points)
        causes = measurer.causes(find_steps(points, found.rows), trees)
    return joined(found, points, causes.get), kept.problem


def _setting(arguments: Namespace, repository: Repository, end: str, folder: Path) -> Setting:
    words = [relative_to_here(word, repository.root) for word in arguments.tests]
    paths = {path: repository.path_from_root(path) for path in arguments.paths}
    for path, inside in paths.items():
        if not inside:
            raise AttnMemError(f"--paths {path}: it is outside of {repository.root}")
    own = arguments.program
    fixed = FixedTests() if own else fixed_tests(repository, arguments.tests_from, end, words)
    backend = arguments.backend or (DEFAULT if own else backend_at(repository, end, words))
    return Setting(
        repository,
        fixed,
        tuple(words),
        program(own, folder) if own else None,
        backend,
        arguments.timeout,
        tuple(paths.values()),
        tuple(arguments.modules),
        tuple(arguments.stand_in),
    )


def _listed(arguments: Namespace, repository: Repository, start: str, end: str) -> Sequence[Listed]:
    """Returns the commits to measure: those of this shard, and those that they follow."""
    paths = [f":(top){repository.path_from_root(path)}" for path in arguments.paths] or _NO_CODE
    every = arguments.every
    listed = repository.listed(
        start,
        end,
        paths,
        first_parent=arguments.first_parent or every > 1,
        since=arguments.since,
    )
    if every > 1:
        some = [one.sha for one in listed][::-1][::every][::-1]
        listed = [Listed(sha, tuple(some[n - 1 : n])) for n, sha in enumerate(some)]
    if not listed:
        raise AttnMemError(f"{arguments.range}: no commit changes the code there")
    part, _, parts = arguments.shard.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise AttnMemError(f"--shard: expected a part such as 2/8, got {excerpt(arguments.shard)}")
    first = len(listed) * (int(part) - 1) // int(parts)
    mine = listed[first : len(listed) * int(part) // int(parts)]
    own = {one.sha for one in mine}
    before = {sha for one in mine for sha in one.parents} - own
    return [*(Listed(one.sha) for one in listed[:first] if one.sha in before), *mine]


def _tests(tests: FixedTests, repository: Repository) -> list[str]:
    """Returns what fixed tests are known by."""
    if tests.commit:
        return [*tests.paths, repository.trees([tests.commit], tests.paths)[tests.commit]]
    return [
        f"{file} {sha256(file.read_bytes()).hexdigest()}"
        for path in tests.files
        for file in ([path] if path.is_file() else sorted(path.rglob("*.*")))
        if file.is_file() and "__pycache__" not in file.parts
    ]


def _facts(arguments: Namespace, backend: str) -> dict[str, str]:
    import torch

    return {
        "backend": backend,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "tests": arguments.program.name if arguments.program else " ".join(arguments.tests),
        "commits": arguments.range,
    }

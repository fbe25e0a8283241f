"""Find the commit since which a test needs more memory."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ..baselines.entries import row_name
from ..bisection.bisection import Bisection, Culprit, Result, State
from ..budgets.tolerance import parse_tolerance
from ..commits.commit_files import commit_files, fixed_tests
from ..commits.repository import Commit, Repository
from ..commits.warm_process import warm_process
from ..errors import AttnMemError
from ..report import held_changes
from ..units import excerpt, format_count, format_distinct
from .commit_backend import add_backend, backend_at, check_backend
from .terminal import answer, progress

#: The most lines of tensors for one test.
_TENSORS: Final = 6


def add_arguments(parser: ArgumentParser) -> None:
    """``v1.2..HEAD -- tests/test_attention.py``."""
    parser.usage = "%(prog)s [options] GOOD..BAD [-- tests and options of pytest]"
    parser.epilog = (
        "Without words after --, all tests run. A commit is bad if a test is over its budget"
        " there and not at the good end; if there is no such test, if a test's peak is above that"
        " of the good end. Tests without a marker are measured too. The files of a commit are in a"
        " folder of their own; your repository is only read. Commits that cannot be measured are"
        " skipped and named."
    )
    parser.add_argument("range", metavar="GOOD..BAD", help="two commits, such as v1.2..HEAD")
    add_backend(parser, "bad")
    parser.add_argument(
        "--grew", action="store_true", help="a larger peak is bad, even if a budget is exceeded"
    )
    parser.add_argument(
        "--tolerance",
        default="0",
        metavar="T",
        help="growth since the good end that is still good, such as 2%%+1MiB (default: 0)",
    )
    parser.add_argument(
        "--tests-from",
        default="each",
        metavar="FROM",
        help="each: each commit's own tests; bad: those of the bad end at every commit; or those"
        " of a COMMIT, or of a FOLDER such as . or /tmp/new (default: each)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="skip a commit whose tests take longer (default: 600)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def execute(arguments: Namespace) -> int:
    """Prints the first bad commit; returns 1 if skipped commits leave several.

    Raises:
        AttnMemError: an end is not a commit, the ends cannot be told apart, or git fails.
    """
    tolerance = parse_tolerance(arguments.tolerance, "--tolerance")
    check_backend(arguments.backend, arguments.tests)
    if not arguments.timeout > 0:
        raise AttnMemError(f"--timeout: expected more than 0 seconds, got {arguments.timeout:g}")
    here = Path.cwd()
    repository = Repository(here)
    good, bad = repository.ends(arguments.range)
    tests = [relative_to_here(word, repository.root) for word in arguments.tests]
    fixed = fixed_tests(repository, arguments.tests_from, bad, tests)
    backend = arguments.backend or backend_at(repository, bad, tests)
    with (
        progress("starting the process that runs the tests", lines=True) as show,
        commit_files(repository, fixed) as files,
        warm_process(
            repository.root, files.path, repository.folder, backend, arguments.timeout
        ) as process,
    ):
        search = Bisection(repository, files, process, tests, show)
        found = search.between(good, bad, grew=arguments.grew, tolerance=tolerance)
    answer(
        arguments.json,
        lambda: {**to_dict(found), "backend": backend},
        lambda: [*render(found, backend), *uncommitted(repository)],
    )
    return 0 if len(found.found.candidates) == 1 else 1


def relative_to_here(word: str, root: Path) -> str:
    """Returns a path below the repository relative to the working directory."""
    path = Path(word.partition("::")[0])
    if path.is_absolute() and path.resolve().is_relative_to(root):
        return os.path.relpath(word, Path.cwd())
    return word


def uncommitted(repository: Repository, but: Sequence[str] = ()) -> Iterator[str]:
    """Yields a line if files, other than these, have changes that are in no commit."""
    if number := repository.changed_files(but):
        files = "1 file has" if number == 1 else f"{number} files have"
        yield f"{files} changes that are in no commit, which were not measured"


def render(found: Result, backend: str) -> list[str]:
    """Returns the answer, then what it rests on."""
    lines = [*_answer(found, backend)]
    for culprit in found.culprits:
        lines += ["", *_told(culprit)]
    if skipped := found.skipped:
        lines += ["", f"skipped {format_count(len(skipped), 'commit')} that cannot be measured:"]
        lines += [f"  {_line(commit)}\n    {excerpt(why, 160)}" for commit, why in skipped]
    measured = format_count(len(found.samples), "commit")
    return [*lines, "", f"measured {measured}; bad: {_meaning(found)}"]


def _answer(found: Result, backend: str) -> Iterator[str]:
    candidates = found.found.candidates
    if len(candidates) > 1:
        one = f"one of {len(candidates)}, measured on {backend}"
        yield f"the first bad commit is {one}; those between were skipped:"
        yield from (f"  {_line(found.commits[number])}" for number in candidates)
        return
    commit = found.first_bad
    yield f"{commit.sha} is the first bad commit, measured on {backend}"
    yield f"  author  {commit.author}"
    yield f"  date    {commit.date}"
    yield f"  title   {excerpt(commit.subject, 160)}"
    if found.is_merge:
        yield "  it is a merge; the commits that it merges are good on their own"
    for merge in found.through:
        yield f"  merged by {_line(merge)}"


def _told(culprit: Culprit) -> Iterator[str]:
    before, after = culprit.before, culprit.after
    yield row_name(culprit.row)
    if after.out_of_memory:
        yield f"  out of memory: {excerpt(after.out_of_memory, 160)}"
    elif before.value is not None and after.value is not None:
        old, new = format_distinct(before.value, after.value)
        yield f"  {old} → {new} ({after.value - before.value:+,} B) on {after.place}"
    if after.fails:
        yield f"  {excerpt(after.reason, 200)}"
    if culprit.change:
        yield f"  {excerpt(culprit.change, 400)}"
    if culprit.tensors:
        yield "  at the peak:"
        yield from (f"    {line}" for line in held_changes.lines(culprit.tensors, _TENSORS))


def _meaning(found: Result) -> str:
    rows = found.criterion.levels
    first, more = row_name(next(iter(rows))), len(rows) - 1
    others = f" or one of {more} other results" if more > 1 else " or another result" * more
    if found.criterion.by_budget:
        return f"{first}{others} is over its budget"
    return f"{first}{others} needs more than at the good end"


def _line(commit: Commit) -> str:
    return f"{commit.short} {commit.date} {commit.author}: {excerpt(commit.subject, 100)}"


def to_dict(found: Result) -> dict[str, Any]:
    """Returns the result as JSON values; sizes are bytes."""
    single = len(found.found.candidates) == 1
    states = found.found.states
    return {
        "schema": 1,
        "first_bad": asdict(found.first_bad) if single else None,
        "candidates": [asdict(found.commits[number]) for number in found.found.candidates],
        "merged_by": [asdict(commit) for commit in found.through],
        "is_merge": found.is_merge,
        "culprits": [
            {
                **dict(zip(("nodeid", "region", "metric"), culprit.row, strict=True)),
                "before_bytes": culprit.before.value,
                "after_bytes": culprit.after.value,
                "change": culprit.change,
                "tensors": [held_changes.to_dict(one) for one in culprit.tensors],
            }
            for culprit in found.culprits
        ],
        "skipped": [{**asdict(commit), "reason": why} for commit, why in found.skipped],
        "commits": [
            {
                **asdict(commit),
                "state": states[number].value if number in states else "not measured",
                "bytes": {
                    row_name(row): record.value
                    for row, record in found.samples[commit.sha].rows.items()
                    if row in found.criterion.levels
                }
                if states.get(number, State.SKIPPED) is not State.SKIPPED
                else {},
            }
            for number, commit in enumerate(found.commits)
        ],
        "measured": len(found.samples),
    }

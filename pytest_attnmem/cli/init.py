"""Suggest a budget for each of the ten largest tests, as a diff."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ..baselines.entries import Entry
from ..report import write
from ..report.cells import aligned
from ..units import excerpt, format_count, format_size
from .init_edits import Edit, unified_diff
from .init_edits import edits as edits_of
from .init_promises import Promise, Suite, suggest
from .terminal import progress

#: The most tests that get a suggestion.
MOST: Final = 10


def add_arguments(parser: ArgumentParser) -> None:
    """``tests -k attention``."""
    parser.usage = "%(prog)s [--apply] [--json] [tests and options of pytest]"
    parser.epilog = (
        "The suite runs once. The ten tests with the largest peaks that no budget and no baseline"
        " holds yet run again: each gets a formula of its sizes if one fits exactly, else the"
        " formula of its largest tensors and the order of the rest, else an entry in the baseline."
        " Each is tried: the tests keep it, and with one more copy of the largest tensor they would"
        " not. git apply reads the output."
    )
    parser.add_argument("--apply", action="store_true", help="write the changes to the files")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def execute(arguments: Namespace) -> int:
    """Prints the suggestions and the diff; returns 1 if no test keeps a promise.

    Raises:
        AttnMemError: no test could be measured, or a file cannot be written.
    """
    with (
        progress("measuring the suite") as show,
        TemporaryDirectory(prefix="attnmem-init-") as folder,
    ):
        suite = Suite(Path(folder).resolve(), arguments.tests, show)
        promises = suggest(suite, MOST)
    kept = [promise for promise in promises if promise.kind]
    limits = {one.where: one.limit for one in kept if one.limit}
    entries = {key: entry for one in kept if not one.limit for key, entry in one.entries.items()}
    edits = edits_of(limits, entries, suite.rootdir, suite.baseline)
    diff = "".join(unified_diff(edits, suite.rootdir))
    if arguments.json:
        found = {
            "schema": 1,
            "backends": [*suite.places],
            "suggestions": [_to_dict(promise) for promise in promises],
            "left_out": suite.left_out,
            "diff": diff,
        }
        print(json.dumps(found, indent=1))
    else:
        lines = [*render(promises, suite.places), *_left_out(suite.left_out)]
        print("\n".join([*lines, *(["", diff] if edits and not arguments.apply else [])]))
    for edit in edits if arguments.apply else ():
        write(edit.path, edit.after)
    if promises and not arguments.json:
        print(_next(edits, applied=arguments.apply))
    return 0 if edits or not promises else 1


def render(promises: Sequence[Promise], places: Sequence[str]) -> list[str]:
    """Returns where it was measured, and the table, the largest test first."""
    if not promises:
        return ["nothing to suggest: each test that allocates memory has a budget"]
    rows = [row for promise in promises for row in _rows(promise)]
    heads = ("test", "peak", "promise", "limit", "a copy of the largest tensor")
    where = f"measured on {', '.join(places)}; attnmem_backend in the ini file chooses"
    return [where, "", *aligned(rows, heads, "lllll")]


def _rows(promise: Promise) -> Iterator[tuple[str, ...]]:
    """Yields the row of the largest test, then those of other tests that get an entry."""
    more, over = format_size(promise.largest), format_size(promise.over)
    copy = f"{more} more is {over} over" if promise.kind else ""
    own = {key.test: entry for key, entry in promise.entries.items() if key[1:3] == ("", "peak")}
    by_entry = promise.kind and not promise.limit
    limit = _recorded(own[promise.test]) if by_entry else promise.limit or promise.why
    yield promise.test, format_size(promise.peak), promise.kind or "none", limit, copy
    for test, entry in own.items():
        if by_entry and test != promise.test:
            yield test, format_size(entry.first or entry.nbytes), promise.kind, _recorded(entry), ""


def _recorded(entry: Entry) -> str:
    """Returns the bytes of an entry: those of each run, and what only a first one needs."""
    once = entry.first - entry.nbytes if entry.first is not None else 0
    return format_size(entry.nbytes) + (f" +{format_size(once)} filled once" if once else "")


def _left_out(tests: Mapping[str, str]) -> Iterator[str]:
    if tests:
        yield f"\nleft out, {format_count(len(tests), 'test')}:"
    for test, why in [*tests.items()][:MOST]:
        yield f"  {test}: {excerpt(why, 160)}"
    if len(tests) > MOST:
        yield f"  and {len(tests) - MOST} more"


def _next(edits: Sequence[Edit], *, applied: bool) -> str:
    if not edits:
        return "no change to suggest"
    files = ", ".join(edit.path.name for edit in edits)
    if applied:
        return f"written: {files}; run pytest --attnmem-report"
    return f"would change {files}: attnmem init --apply writes it, or git apply the output"


def _to_dict(promise: Promise) -> dict[str, Any]:
    return {
        "test": promise.test,
        "where": promise.where,
        "peak_bytes": promise.peak,
        "promise": promise.kind or None,
        "limit": promise.limit or None,
        "reason": promise.why or None,
        "largest_tensor_bytes": promise.largest if promise.kind else None,
        "over_bytes": promise.over if promise.kind else None,
    }

"""Suggest a budget for each of the ten largest tests, as a diff."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ..contents import replace
from ..errors import AttnMemError
from ..units import format_size
from .init_edits import Edit, unified_diff
from .init_edits import edits as edits_of
from .init_promises import Promise, Suite, suggest
from .progress import progress

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
    """Prints the suggestions and the diff; returns 1 if there is no suggestion.

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
        listed = [_to_dict(promise) for promise in promises]
        print(json.dumps({"schema": 1, "suggestions": listed, "diff": diff}, indent=1))
    else:
        print("\n".join([*render(promises), *([] if arguments.apply else ["", diff])]))
    if arguments.apply:
        _write(edits)
    if not arguments.json:
        print(_next(edits, applied=arguments.apply))
    return 0 if edits else 1


def render(promises: Sequence[Promise]) -> list[str]:
    """Returns the table, the largest test first."""
    from tabulate import tabulate

    rows = [
        (
            promise.test,
            format_size(promise.peak),
            promise.kind or "none",
            promise.limit or promise.why or f"{format_size(promise.peak)} as recorded",
            f"{format_size(promise.largest)} more is {format_size(promise.over)} over"
            if promise.kind
            else "",
        )
        for promise in promises
    ]
    heads = ("test", "peak", "promise", "limit", "a copy of the largest tensor")
    return tabulate(rows, heads, disable_numparse=True).splitlines()


def _write(edits: Sequence[Edit]) -> None:
    for edit in edits:
        try:
            replace(edit.path, edit.after.encode("utf-8"))
        except OSError as error:
            raise AttnMemError(f"cannot write {edit.path}: {error.strerror}") from error


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

"""Say what grew from one allocator snapshot, or JSON file, to another, by source line."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from ..contents import contents
from ..errors import AttnMemError
from ..units import parse_size
from . import diff_results, diff_snapshots
from .progress import progress


def add_arguments(parser: ArgumentParser) -> None:
    """``old.pickle new.pickle --what-if``."""
    parser.epilog = (
        "A snapshot is a file of torch.cuda.memory._dump_snapshot() from any machine, whose history"
        " was recorded; it is read without running any code that it may contain. A JSON file is one"
        " of --attnmem-json; with --attnmem-explain all it lists the tensors of every test."
    )
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="the older file, then the newer one"
    )
    parser.add_argument(
        "--what-if",
        action="store_true",
        help="replay the newer snapshot under other settings of the allocator, and name the best",
    )
    parser.add_argument(
        "--settings",
        action="append",
        default=[],
        metavar="CONF",
        help="one more setting to replay, as in PYTORCH_CUDA_ALLOC_CONF; may be repeated",
    )
    parser.add_argument(
        "--memory", metavar="SIZE", help="the device's memory for --what-if (default: no limit)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def execute(arguments: Namespace) -> int:
    """Prints what grew, and the best settings.

    Raises:
        AttnMemError: a file cannot be read, or the two are not of one kind.
    """
    files: list[Path] = arguments.files
    what_if = arguments.what_if or bool(arguments.settings)
    if len(files) > 2 or (len(files) == 1 and not what_if):
        raise AttnMemError(
            f"expected two files, or one with --what-if, got {len(files)}; as in old.pickle"
            " new.pickle"
        )
    kinds = {_is_json(path) for path in files}
    if len(kinds) > 1:
        raise AttnMemError(
            f"{files[0]} and {files[1]} are a JSON file and a snapshot; compare two of one kind"
        )
    if kinds == {True}:
        if what_if:
            raise AttnMemError("--what-if replays the events of a snapshot; a JSON file has none")
        with progress("reading the results"):
            lines, data = diff_results.diff(*files)
    else:
        capacity = None if arguments.memory is None else parse_size(arguments.memory)
        with progress("reading the snapshots"):
            lines, data = diff_snapshots.diff(files, what_if, arguments.settings, capacity)
    print(_as_json(data) if arguments.json else "\n".join(lines))
    return 0


def _as_json(data: dict[str, Any]) -> str:
    return json.dumps({"schema": 1, **data}, indent=1, ensure_ascii=False)


def _is_json(path: Path) -> bool:
    """Returns True if a file is JSON by its first character; no pickle starts with a brace."""
    try:
        return contents(path)[:100].lstrip()[:1] == b"{"
    except OSError as error:
        raise AttnMemError(f"cannot read {path}: {error.strerror or error}") from error

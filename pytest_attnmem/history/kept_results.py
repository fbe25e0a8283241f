"""What earlier runs measured, in the user's cache: a line is added for each result."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from .. import __version__
from ..report.json_types import made_of
from .project_history import Cause, Measured


class KeptResults:
    """The results of one setting: a file that a run reads at its start, and adds to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._measured: dict[str, Measured] = {}
        self._causes: dict[str, Cause] = {}
        self.problem = ""
        """Why results are not kept, such as a full disk; the run goes on."""
        try:
            text = path.read_text("utf-8")
        except (OSError, ValueError):
            return
        for line in text.splitlines():
            self._read(line)

    def _read(self, line: str) -> None:
        try:
            data = json.loads(line)
            if "cause" in data:
                self._causes[data["key"]] = made_of(Cause, data["cause"])
            else:
                self._measured[data["key"]] = made_of(Measured, data["measured"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            pass  # the last line of a run that was killed; its commit is measured again

    def measured(self, tree: str) -> Measured | None:
        """Returns the result of the files of a commit, if it is known."""
        return self._measured.get(tree)

    def keep(self, tree: str, measured: Measured, *, write: bool = True) -> None:
        """Adds the result of the files of a commit."""
        self._measured[tree] = measured
        if write:
            self._write({"key": tree, "measured": asdict(measured)})

    def cause(self, *key: str) -> Cause | None:
        """Returns the cause of a step, by its row and the files before and after it."""
        return self._causes.get("\t".join(key))

    def keep_cause(self, *key: str, cause: Cause) -> None:
        """Adds the cause of a step."""
        self._causes["\t".join(key)] = cause
        self._write({"key": "\t".join(key), "cause": asdict(cause)})

    def _write(self, data: Mapping[str, Any]) -> None:
        if self.problem:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                # The line break comes first: the last line of a killed run may have none.
                file.write(f"\n{json.dumps(data, separators=(',', ':'))}")
        except OSError as error:
            self.problem = f"{self._path}: {error.strerror or error}"


def kept_results(folder: Path, setting: Sequence[object]) -> KeptResults:
    """Returns the results of a setting: all that numbers depend on, but for the commit.

    These are, beside what the caller names, this package, Python, and every installed package.
    """
    installed = sorted(f"{one.metadata['Name']} {one.version}" for one in distributions())
    whole = [*setting, __version__, sys.version, installed]
    digest = hashlib.sha256(json.dumps(whole).encode()).hexdigest()
    return KeptResults(folder / f"{digest[:32]}.jsonl")

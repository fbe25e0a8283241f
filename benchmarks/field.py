"""Measures the plugin's cost against bare pytest and against what the field uses, in one run.

Nothing here fails: the numbers are for reading, and the ratios are what carries over to other
machines. ``performance_page.py`` runs it and writes the page.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import field_suites

from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.nulldevice.launch import environment
from pytest_attnmem.profiles import find_profile


class Row(NamedTuple):
    """What one contender takes, and takes over bare pytest, in seconds."""

    kind: str
    contender: str
    seconds: float
    added: float | None
    """None for bare pytest itself."""


def measure(rounds: int, null: str | None) -> list[Row]:
    """Returns the rows."""
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        variables = null_environment(null) if null else {}
        timers = [*field_suites.timers(Path(folder), null, variables)]
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            for kind, contender, timer in timers:
                found[kind, contender.name].append(timer())
    return rows({key: min(times) for key, times in found.items()})


def rows(least: dict[tuple[str, str], float]) -> list[Row]:
    """Returns a row for each, beside the bare pytest of its device."""
    made = []
    for (kind, name), seconds in least.items():
        bare = f"bare pytest{', null device' if 'null' in name else ''}"
        added = None if name == bare else seconds - least[kind, bare]
        made.append(Row(kind, name, seconds, added))
    return made


def null_environment(python: str) -> dict[str, str]:
    """Returns the variables that put the null device under a process of that interpreter.

    Raises:
        BackendUnavailable: it cannot be built there.
    """
    code = "import field, json; print(json.dumps(field.variables()))"
    done = subprocess.run(
        [python, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    if done.returncode:
        raise BackendUnavailable(f"no null device with {python}: {done.stderr.strip()[-200:]}")
    made: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return made


def variables() -> dict[str, str]:
    """Returns the variables of this interpreter's null device."""
    return {**environment(find_profile("H100"))}


def ratios(found: Sequence[Row]) -> dict[tuple[str, str], float]:
    """Returns how many times ours each other contender adds, by kind and name."""
    ours = {
        (row.kind, "null" in row.contender): row.added
        for row in found
        if row.contender.startswith("attnmem") and row.added
    }
    made = {}
    for row in found:
        own = ours.get((row.kind, "null" in row.contender))
        if row.added is not None and own and not row.contender.startswith("attnmem"):
            made[row.kind, row.contender] = row.added / own
    return made


def per_allocation(found: Sequence[Row]) -> float:
    """Returns the seconds that the plugin adds to one allocation on the CPU."""
    by = {(row.kind, row.contender): row.added or 0.0 for row in found}
    return (by["1000 allocations", "attnmem"] - by["marked test", "attnmem"]) / 1000

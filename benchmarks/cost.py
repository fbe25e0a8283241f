"""Measures the plugin's cost beside bare pytest and other plugins, in one run and one table.

python benchmarks/cost.py [--rounds 5] [--null PYTHON]

It writes its section of ``docs/evidence/performance.md``, as ``performance_page.py`` does.
``PYTHON`` is an interpreter with the CUDA build of torch; without it the table has no rows of the
null device. All that the table compares is timed in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

import field_suites
from field_suites import Contender, median_time, processor_time

from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.nulldevice.launch import environment
from pytest_attnmem.profiles import find_profile

PAGE: Final = Path(__file__).parents[1] / "docs" / "evidence" / "performance.md"
TITLE: Final = "## A session and a test"
TESTS: Final = 300

HEAD: Final = f"""{TITLE}

Times in ms of the processor, the least of {{rounds}} rounds; what is added to bare pytest of the
same device is in brackets.

| column | what is timed |
|---|---|
| import | the plugin, where pytest is imported |
| start | the whole process with one empty test |
| unmarked | the median of {TESTS} empty tests |
| first | the whole process with one marked test, torch and the backend's start included |
| marked | the median marked test, which clones ten numbers |
| 1000 allocations | the median marked test, which clones them 1000 times |

pytest-benchmem and pytest-benchmark run a body more often than once. The hand-written fixture reads
`torch.cuda.max_memory_allocated()`, with no account of garbage, workspaces and inputs; its other
form collects garbage first. Rows of `null` run on the CUDA build of torch, whose import is slower.

"""

EMPTY: Final = """
import pytest

@pytest.mark.parametrize("i", range({tests}))
def test_it(i):
    pass
"""

#: What is timed, in the order of the columns.
COLUMNS: Final = ("import", "start", "unmarked", "first", "marked", "1000 allocations")
#: The columns that a bare pytest has, on its own device or on the CPU.
OF_CPU: Final = ("start", "unmarked")

Costs = Mapping[Contender, Mapping[str, float]]
"""Contender → column → seconds."""


def measured(rounds: int, null: str | None) -> Costs:
    """Returns what each contender takes that is installed; ``null`` is the null device's Python."""
    on_null = field_suites.ON_NULL if null else ()
    contenders = [one for one in field_suites.ON_CPU if field_suites.installed(one)]
    variables = null_environment(null) if null else {}
    found: dict[Contender, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        timers = {
            one: timers_of(
                one,
                Path(folder, str(n)),
                str(null) if one in on_null else sys.executable,
                variables if one in on_null else {},
            )
            for n, one in enumerate([*contenders, *on_null])
        }
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            for one, columns in timers.items():
                for column, timer in columns.items():
                    found.setdefault(one, defaultdict(list))[column].append(timer())
    return {one: {c: min(times) for c, times in by.items()} for one, by in found.items()}


def timers_of(
    one: Contender, folder: Path, python: str, variables: Mapping[str, str]
) -> dict[str, Callable[[], float]]:
    """Writes the suites of a contender, and returns what times each of its columns."""
    command = field_suites.command(one, python)
    on_device = [*command, *one.options]
    suites = {
        "start": EMPTY.format(tests=1),
        "unmarked": EMPTY.format(tests=TESTS),
        "first": field_suites.with_torch(1, 1, one),
        "marked": field_suites.with_torch(40, 1, one),
        "1000 allocations": field_suites.with_torch(25, 1000, one),
    }
    made: dict[str, Callable[[], float]] = {}
    for name, source in suites.items():
        suite = folder / name
        suite.mkdir(parents=True)
        (suite / "pytest.ini").write_text("[pytest]\n")
        (suite / "test_it.py").write_text(source)
        whole = name in ("start", "first")
        timing = "" if whole else field_suites.CONFTEST
        (suite / "conftest.py").write_text(timing + field_suites.FIXTURES)
        timed = processor_time if whole else median_time
        if name not in OF_CPU:
            made[name] = partial(timed, on_device, suite, variables)
        elif one.device == "cpu":
            made[name] = partial(timed, command, suite, {})
    if one.plugins and one.device == "cpu":
        (point,) = entry_points(group="pytest11", name=one.plugins[0])
        made["import"] = partial(import_time, point.module)
    return made


def import_time(module: str) -> float:
    """Returns the seconds to import a plugin where pytest has been imported."""
    code = (
        f"import pytest, time; t = time.process_time(); import {module};"
        "print(time.process_time() - t)"
    )
    command = [sys.executable, "-c", code]
    return float(subprocess.check_output(command, text=True, env=field_suites.variables({})))


def null_environment(python: str) -> dict[str, str]:
    """Returns the variables that put the null device under a process of that interpreter.

    Raises:
        BackendUnavailable: it cannot be built there.
    """
    code = "import cost, json; print(json.dumps(cost.variables()))"
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


def section(costs: Costs, rounds: int) -> str:
    """Returns the section of the page."""
    more = f"One allocation of 1000 costs {per_allocation(costs) * 1e6:.1f} µs more"
    lines = [*table(costs), "", f"{more} with attnmem's CPU backend."]
    return HEAD.format(rounds=rounds) + "\n".join(lines) + "\n"


def table(costs: Costs) -> Iterator[str]:
    """Yields the lines of the table; the last column has the ratio of what a marked test adds."""
    yield f"| with | {' | '.join(COLUMNS)} | marked, times attnmem's |"
    yield f"|---|{'---:|' * (len(COLUMNS) + 1)}"
    added = {one: _added(one, by, costs) for one, by in costs.items()}
    for one, by in costs.items():
        cells = [_cell(c, by.get(c), added[one].get(c)) for c in COLUMNS]
        ours = added.get(
            field_suites.NULL if one in field_suites.ON_NULL else field_suites.OURS, {}
        )
        mine, own = added[one].get("marked"), ours.get("marked")
        times = f"{mine / own:.2f}" if mine and own else ""
        yield f"| {' | '.join([one.name, *cells, times])} |"


def _added(one: Contender, by: Mapping[str, float], costs: Costs) -> dict[str, float]:
    """Returns the seconds of each column over bare pytest; empty for bare pytest itself."""
    bare = field_suites.NULL_BARE if one in field_suites.ON_NULL else field_suites.BARE
    return {} if one == bare else {c: by[c] - costs[bare][c] for c in by if c in costs[bare]}


def _cell(column: str, seconds: float | None, added: float | None) -> str:
    if seconds is None:
        return ""
    digits = 1 if column in ("import", "start", "first") else 3
    more = "" if added is None else f" ({added * 1e3:+.{digits}f})"
    return f"{seconds * 1e3:.{digits}f}{more}"


def per_allocation(costs: Costs) -> float:
    """Returns the seconds that the plugin adds to one allocation on the CPU."""
    added = _added(field_suites.OURS, costs[field_suites.OURS], costs)
    return (added["1000 allocations"] - added["marked"]) / 1000


def main() -> None:
    """Measures, and writes the section."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--null", metavar="PYTHON", type=os.path.abspath)
    options = parser.parse_args()
    made = section(measured(options.rounds, options.null), options.rounds)
    page = re.sub(
        rf"^{TITLE}\n.*?(?=^## )",
        lambda _: f"{made}\n",
        PAGE.read_text("utf-8"),
        flags=re.M | re.S,
    )
    PAGE.write_text(page, encoding="utf-8")
    print(made)


if __name__ == "__main__":
    main()

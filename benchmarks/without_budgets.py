"""What a suite without budgets pays for the plugin, beside bare pytest and what the field uses.

python benchmarks/without_budgets.py [--rounds 5]

It writes its section of ``docs/evidence/performance.md``, as ``performance_page.py`` does; it needs
no torch. All that the table compares is timed in one run, in turns.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final, NamedTuple

import field_suites
from field_suites import Contender

PAGE: Final = Path(__file__).parents[1] / "docs" / "evidence" / "performance.md"
TITLE: Final = "## A suite without budgets"
TESTS: Final = 300

HEAD: Final = f"""{TITLE}

What the plugin costs those who do not use it, in ms. `import` is that of the plugin where pytest
is imported, and `modules` are those that a session without markers has, and bare pytest has not.
`start` is the whole process with one empty test, `session` that with {TESTS}, and `a test` is the
median one. `python benchmarks/without_budgets.py` measures this table alone.

"""

EMPTY: Final = """
import pytest

@pytest.mark.parametrize("i", range({tests}))
def test_it(i):
    pass
"""

MODULES: Final = """
import os, sys

def pytest_unconfigure():
    with open(os.environ["MODULES"], "w") as file:
        print(*sys.modules, file=file)
"""

#: What is timed, in the order of the columns.
COLUMNS: Final = ("import", "start", "session", "a test")


class Cost(NamedTuple):
    """What one contender takes, in seconds by column; and its modules."""

    seconds: Mapping[str, float]
    modules: frozenset[str]


def measured(rounds: int) -> dict[str, Cost]:
    """Returns what each contender that is installed takes."""
    contenders = [one for one in field_suites.ON_CPU if field_suites.installed(one)]
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    modules = {}
    with tempfile.TemporaryDirectory() as folder:
        suites = {one.name: written(Path(folder, one.name), one) for one in contenders}
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            for name, (timers, named) in suites.items():
                for column, timer in timers.items():
                    found[name, column].append(timer())
                modules[name] = frozenset(named.read_text().split())
    return {
        name: Cost(
            {column: min(times) for (of, column), times in found.items() if of == name},
            modules[name] - modules[field_suites.BARE.name],
        )
        for name in suites
    }


def written(folder: Path, contender: Contender) -> tuple[dict[str, partial[float]], Path]:
    """Writes the suites of one contender; returns the timers, and the file of its modules."""
    command = field_suites.command(contender, sys.executable)
    named = folder / "modules"
    suites = {}
    for name, tests, conftest in (("one", 1, ""), ("all", TESTS, MODULES), ("each", TESTS, None)):
        suite = suites[name] = folder / name
        suite.mkdir(parents=True)
        (suite / "pytest.ini").write_text("[pytest]\n")
        (suite / "test_it.py").write_text(EMPTY.format(tests=tests))
        (suite / "conftest.py").write_text(field_suites.CONFTEST if conftest is None else conftest)
    timed = field_suites.processor_time
    timers = {
        "start": partial(timed, command, suites["one"], {}),
        "session": partial(timed, command, suites["all"], {"MODULES": str(named)}),
        "a test": partial(field_suites.median_time, command, suites["each"], {}),
    }
    if contender.plugins:
        (point,) = entry_points(group="pytest11", name=contender.plugins[0])
        timers = {"import": partial(import_time, point.module), **timers}
    return timers, named


def import_time(module: str) -> float:
    """Returns the seconds to import a plugin where pytest has been imported."""
    code = (
        f"import pytest, time; t = time.process_time(); import {module};"
        "print(time.process_time() - t)"
    )
    command = [sys.executable, "-c", code]
    return float(subprocess.check_output(command, text=True, env=field_suites.variables({})))


def section(costs: Mapping[str, Cost]) -> str:
    """Returns the section of the page."""
    return HEAD + "\n".join(table(costs)) + "\n"


def table(costs: Mapping[str, Cost]) -> Iterator[str]:
    """Yields the lines of the table, with the ratio of each session to that of bare pytest."""
    bare = costs[field_suites.BARE.name].seconds
    yield f"| with | modules | {' | '.join(COLUMNS)} | start / bare | session / bare |"
    yield f"|---|{'---:|' * (len(COLUMNS) + 3)}"
    for name, (seconds, modules) in costs.items():
        times = [
            f"{seconds[c] * 1e3:.{3 if c == 'a test' else 1}f}" if c in seconds else ""
            for c in COLUMNS
        ]
        ratios = [f"{seconds[column] / bare[column]:.2f}" for column in ("start", "session")]
        yield f"| {' | '.join((name, str(len(modules)), *times, *ratios))} |"


def main() -> None:
    """Measures, and writes the section."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    made = section(measured(rounds))
    page = re.sub(
        rf"^{TITLE}\n.*?(?=^## )", lambda _: f"{made}\n", PAGE.read_text("utf-8"), flags=re.M | re.S
    )
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()

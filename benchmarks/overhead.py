"""Measures the plugin's cost against bare pytest and against pytest-memray, all in one run.

    python benchmarks/overhead.py [--rounds 5] [--tests 300]

Tests are timed inside each pytest process, one by one, from the start of their protocol to its
end; a table prints the median over tests, the least over rounds. Rounds of all configurations take
turns, so that a machine that slows down slows all of them. Nothing here fails: the numbers are for
reading, and the ratios in the last column are what carries over to other machines.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tabulate import tabulate

CONFTEST = """
import json, os, statistics, time
import pytest

TIMES = []

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    started = time.perf_counter()
    result = yield
    TIMES.append(time.perf_counter() - started)
    return result

def pytest_sessionfinish():
    with open(os.environ["TIMES"], "w") as file:
        json.dump(statistics.median(TIMES[5:]), file)
"""

PLAIN = (
    "import pytest\n\n@pytest.mark.parametrize('i', range({tests}))\ndef test_it(i):\n    pass\n"
)

WITH_TORCH = """
import pytest, torch

x = torch.empty(10)

@pytest.mark.parametrize("i", range({tests}))
{marker}
def test_it(i):
    for _ in range({clones}):
        x.clone()
"""

ATTNMEM = '@pytest.mark.memory_budget("64 MiB")'
MEMRAY = '@pytest.mark.limit_memory("64 MB")'

BARE = ("-p", "no:attnmem", "-p", "no:memray")
OURS = ("-p", "no:memray")
THEIRS = ("-p", "no:attnmem")

Timer = Callable[[], float]


def main() -> None:
    """Measures everything and prints one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tests", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        suites = Suites(Path(folder), options.tests)
        timers = {
            "import pytest_attnmem.plugin": import_time,
            **{
                f"{name}, {what}": suites.timer(what, flags)
                for what in ("collect only", "unmarked test")
                for name, flags in (("bare", BARE), ("attnmem", OURS), ("memray", THEIRS))
            },
            "bare, torch test": suites.timer("torch test", BARE),
            "attnmem, marked test": suites.timer("torch test", OURS, ATTNMEM),
            "memray, marked test": suites.timer("torch test", THEIRS, MEMRAY),
            "bare, 1000 allocations": suites.timer("1000 allocations", BARE),
            "attnmem, 1000 allocations": suites.timer("1000 allocations", OURS, ATTNMEM),
            "memray, 1000 allocations": suites.timer("1000 allocations", THEIRS, MEMRAY),
        }
        least = run_in_turns(timers, options.rounds)
    print(render(least))


class Suites:
    """Small suites in a folder, each run by a pytest of its own."""

    def __init__(self, folder: Path, tests: int) -> None:
        self._folder = folder
        self._tests = tests

    def timer(self, what: str, flags: tuple[str, ...], marker: str = "") -> Timer:
        """Returns the seconds of a test of this suite, or of the whole process that collects."""
        tests = self._tests
        if what == "1000 allocations":
            source = WITH_TORCH.format(tests=max(tests // 10, 20), marker=marker, clones=1000)
        elif what == "torch test":
            source = WITH_TORCH.format(tests=max(tests // 3, 20), marker=marker, clones=1)
        else:
            source = PLAIN.format(tests=1 if what == "collect only" else tests)
        suite = self._folder / f"suite{len(list(self._folder.iterdir()))}"
        suite.mkdir()
        (suite / "conftest.py").write_text(CONFTEST)
        (suite / "test_it.py").write_text(source)
        (suite / "pytest.ini").write_text("[pytest]\n")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *flags]
        if what == "collect only":
            (suite / "conftest.py").unlink()
            return lambda: process_time([*command, "--collect-only"], suite)
        return lambda: median_time(command, suite)


def median_time(command: list[str], suite: Path) -> float:
    """Returns the median test of one run."""
    times = suite / "times.json"
    run(command, suite, {"TIMES": str(times)})
    return float(json.loads(times.read_text()))


def process_time(command: list[str], suite: Path) -> float:
    """The whole process, the best of a dozen: its noise is larger than what is looked for."""
    times = []
    for _ in range(12):
        started = time.perf_counter()
        run(command, suite, {})
        times.append(time.perf_counter() - started)
    return min(times)


def import_time() -> float:
    """Importing the plugin where pytest has been imported."""
    code = (
        "import pytest, time; t = time.perf_counter(); import pytest_attnmem.plugin;"
        "print(time.perf_counter() - t)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout)


def run(command: list[str], suite: Path, environment: dict[str, str]) -> None:
    """Runs pytest, and exits if it does not pass."""

    everything = {**os.environ, **environment}
    everything.pop("PYTHONDONTWRITEBYTECODE", None)  # each run would compile all plugins anew
    done = subprocess.run(command, cwd=suite, env=everything, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def run_in_turns(timers: dict[str, Timer], rounds: int) -> dict[str, float]:
    """The least time of each, over rounds in which all take turns."""
    times: dict[str, list[float]] = {name: [] for name in timers}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for name, timer in timers.items():
            times[name].append(timer())
    return {name: min(values) for name, values in times.items()}


def render(least: dict[str, float]) -> str:
    """A row a measurement: its time, its cost over bare pytest, and both plugins' ratio."""
    rows = []
    for name, seconds in least.items():
        plugin, _, what = name.partition(", ")
        base = least.get(f"bare, {'torch test' if what == 'marked test' else what}")
        added = None if base is None or plugin == "bare" else seconds - base
        ratio = ""
        if plugin == "memray":
            ours = least[f"attnmem, {what}"] - (base or 0)
            ratio = f"{(added or 0) / ours:.0f}x attnmem's" if ours > 0 else ""
        rows.append(
            (name, f"{seconds * 1e3:.3f}", "" if added is None else f"{added * 1e3:+.3f}", ratio)
        )
    per = (least["attnmem, 1000 allocations"] - least["bare, 1000 allocations"]) * 1e6 / 1000
    rows.append(("attnmem, per allocation (µs)", f"{per:.2f}", "", ""))
    headers = ("what", "ms", "over bare, ms", "ratio")
    return tabulate(rows, headers, colalign=("left", "right", "right", "right"))


if __name__ == "__main__":
    main()

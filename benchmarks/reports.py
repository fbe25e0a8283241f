"""Measures the cost of a session's reports: 1 000 marked tests, with all reports and with none.

    python benchmarks/reports.py [--tests 1000] [--rounds 3]

Each session runs in a process of its own, and they take turns. What counts is the processor's time
of the whole process, which says less of what else a machine does; the least over rounds is printed,
and what each kind of file takes to be rendered.
Nothing here fails: the numbers are for reading.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from field_suites import processor_time
from tabulate import tabulate

from pytest_attnmem.report import KINDS, render
from pytest_attnmem.report.json import load
from pytest_attnmem.report.summary import summarise

SUITE = """
import pytest, torch

@pytest.mark.memory_budget("64 MiB", N=64)
@pytest.mark.parametrize("case", range({tests}))
def test_it(case):
    torch.ones(64)
"""


def main() -> None:
    """Measures, and prints two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "test_it.py").write_text(SUITE.format(tests=options.tests))
        text = [kind for kind in KINDS if kind != "html"]
        sessions = {"none": [], "text": text, "all": [*KINDS]}
        times: dict[str, list[float]] = {what: [] for what in sessions}
        for _ in range(options.rounds):
            for what, kinds in sessions.items():
                times[what].append(session(folder, kinds))
        least = {what: min(values) for what, values in times.items()}
        none = least["none"]
        costs = [(what, took, took - none, took / none) for what, took in least.items()]
        print(tabulate(costs, ("reports", "s", "over none, s", "ratio"), floatfmt=".2f"))
        print()
        print(tabulate(_rendered(folder / "json"), ("kind", "s", "KiB"), floatfmt=".3f"))


def session(folder: Path, kinds: list[str]) -> float:
    """Returns the processor seconds of a session that writes these reports."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:memray", "-p", "no:cacheprovider"]
    command += [f"--attnmem-{kind}={kind}" for kind in kinds]
    command += ["--attnmem-github"] * bool(kinds)
    summary = folder / "summary"
    summary.unlink(missing_ok=True)
    return processor_time(command, folder, {"GITHUB_STEP_SUMMARY": str(summary)})


def _rendered(path: Path) -> list[tuple[str, float, float]]:
    records, environment = load(path)
    rows = []
    for kind in KINDS:
        started = time.process_time()
        text = render(kind, summarise(records), environment)
        rows.append((kind, time.process_time() - started, len(text.encode()) / 1024))
    return rows


if __name__ == "__main__":
    main()

"""Small suites, run beside each other with the plugin and with what the field uses instead.

What counts is the processor's time: of each test, from the start of its protocol to its end, in the
process of the suite. It says less of what else a machine does than the
clock. Of each suite the median of the tests counts, and of all rounds, which take turns, the least.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

CONFTEST: Final = """
import json, os, statistics, time
import pytest

TIMES = []

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    started = time.process_time()
    result = yield
    TIMES.append(time.process_time() - started)
    return result

def pytest_sessionfinish():
    with open(os.environ["TIMES"], "w") as file:
        json.dump(statistics.median(TIMES[5:]), file)
"""

#: What a suite by hand measures with.
FIXTURES: Final = """
import pytest

@pytest.fixture
def by_hand():
    import torch

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    yield
    torch.cuda.synchronize()
    assert torch.cuda.max_memory_allocated() - before <= 64 << 20

@pytest.fixture
def collected():
    import gc

    gc.collect()

@pytest.fixture
def by_hand_collected(collected, by_hand):
    pass
"""

WITH_TORCH: Final = """
import pytest, torch

x = torch.empty(10, device="{device}")

def work():
    for _ in range({clones}):
        x.clone()

@pytest.mark.parametrize("i", range({tests}))
{marker}
def test_it(i{fixture}):
    {call}
"""

OTHERS: Final = ("memray", "benchmem", "benchmark")


class Contender(NamedTuple):
    """A way to measure memory, and how a test asks for it."""

    name: str
    plugins: tuple[str, ...] = ()
    """The plugins that are loaded; the others are kept out."""
    marker: str = ""
    options: tuple[str, ...] = ()
    """Options of a session with marked tests."""
    fixture: str = ""
    call: str = "work()"
    device: str = "cpu"


BARE: Final = Contender("bare pytest")
OURS: Final = Contender("attnmem", ("attnmem",), '@pytest.mark.memory_budget("64 MiB")')
MEMRAY: Final = Contender("pytest-memray", ("memray",), '@pytest.mark.limit_memory("64 MB")')
BENCHMEM: Final = Contender(
    "pytest-benchmem",
    ("benchmem", "benchmark"),
    '@pytest.mark.benchmem(max_peak="64MiB")',
    ("--benchmark-memory",),
    "benchmark",
    "benchmark.pedantic(work)",
)
BENCHMARK: Final = Contender(
    "pytest-benchmark", ("benchmark",), fixture="benchmark", call="benchmark.pedantic(work)"
)
SIMULATED: Final = OURS._replace(
    name="attnmem, simulated", options=("--attnmem-backend", "simulated:H100"), device="cuda"
)
ON_CPU: Final = (BARE, OURS, SIMULATED, MEMRAY, BENCHMEM, BENCHMARK)

NULL_BARE: Final = BARE._replace(name="bare pytest, null device", device="cuda")
BY_HAND: Final = NULL_BARE._replace(name="fixture by hand, null device", fixture="by_hand")
COLLECTED: Final = NULL_BARE._replace(
    name="fixture by hand that collects garbage, null device", fixture="by_hand_collected"
)
NULL: Final = OURS._replace(
    name="attnmem, null device", options=("--attnmem-backend", "null:H100"), device="cuda"
)
ON_NULL: Final = (NULL_BARE, NULL, BY_HAND, COLLECTED)


def installed(contender: Contender) -> bool:
    """Returns True if its plugins are here."""
    others = [name for name in contender.plugins if name in OTHERS]
    return all(importlib.util.find_spec(f"pytest_{name}") for name in others)


def command(contender: Contender, python: str) -> list[str]:
    """Returns the command of a session with the contender's plugins, and none of the others'."""
    kept_out = [name for name in ("attnmem", *OTHERS) if name not in contender.plugins]
    start = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return [*start, *(option for name in kept_out for option in ("-p", f"no:{name}"))]


def with_torch(tests: int, clones: int, contender: Contender) -> str:
    """Returns the source of a suite whose tests allocate."""
    return WITH_TORCH.format(
        tests=tests,
        clones=clones,
        marker=contender.marker,
        fixture=f", {contender.fixture}" if contender.fixture else "",
        call=contender.call,
        device=contender.device,
    )


def median_time(command: list[str], suite: Path, environment: Mapping[str, str]) -> float:
    """Returns the seconds of the median test of one run."""
    times = suite / "times.json"
    processor_time(command, suite, {**environment, "TIMES": str(times)})
    return float(json.loads(times.read_text()))


def processor_time(command: list[str], suite: Path, more: Mapping[str, str]) -> float:
    """Runs pytest and returns the seconds of its process; exits if it does not pass."""
    everything = variables(more)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=suite, env=everything, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def variables(more: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of a process: these, and *more*."""
    found = {**os.environ, **more}
    found.pop("PYTHONDONTWRITEBYTECODE", None)  # each run would compile all plugins anew
    return found

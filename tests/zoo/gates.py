"""The suite of all pairs: a test for each gate; and the sessions of pytest that run it."""

import contextlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import inner_session
import pytest
import torch
from zoo.endings import Ending, Endings
from zoo.pair import Pair, pairs

from pytest_attnmem.measurement.garbage import unfreeze_all

#: The variant that the tests of the baseline run: they are the same tests for both.
VARIANT = "ZOO_VARIANT"

HEAD = f"""\
import os

import pytest
import torch
from zoo.pair import pairs

PAIRS = pairs()
BAD = os.environ["{VARIANT}"] == "bad"


@pytest.fixture
def keep():
    return []
"""


def run(backend: str, chosen: Mapping[str, Pair] | None = None, *, forms: bool = True) -> Endings:
    """The endings of all gates on a backend, from four sessions of pytest in this process.

    Without ``forms``, the baseline has bytes alone: no runs at other sizes fit what grew.
    """
    chosen = pairs() if chosen is None else chosen
    unfreeze_all()  # or the sessions leave freezing to those before them, and visit all their tests
    with tempfile.TemporaryDirectory(prefix="zoo-") as made, _threads(1):
        folder = Path(made).resolve()
        (folder / "pytest.ini").write_text("[pytest]\n")
        tests = [(gate, test(one, gate)) for one in chosen.values() for gate in one.gates]
        for file, baseline in (("test_gates.py", False), ("test_baseline.py", True)):
            mine = [text for gate, text in tests if (gate == "baseline") is baseline]
            (folder / file).write_text("\n\n".join([HEAD, *mine]))
        found = session(folder, "test_gates.py", "both", backend)
        explain = f"--attnmem-explain={'auto' if forms else 'off'}"
        session(folder, "test_baseline.py", "good", backend, "--attnmem-update=all", explain)
        found |= session(folder, "test_baseline.py", "good", backend)
        found |= session(folder, "test_baseline.py", "bad", backend)
        return found


def test(one: Pair, gate: str) -> str:
    """The text of the test that holds a pair at a gate."""
    marks = [f"parametrize({tuple(one.sizes)}, [{tuple(one.sizes.values())}])"]
    taken = dict.fromkeys(["qkv", *one.arguments])
    given = "".join(f"{name}={name}, " for name in one.arguments)
    program = f"PAIRS[{one.name!r}].program({given}bad=BAD)"
    if gate != "baseline":
        marks.append('parametrize("bad", [False, True], ids=["good", "bad"])')
        taken["bad"] = None
        program = program.replace("BAD", "bad")
    if gate == "compare":
        taken["attnmem"] = None
        base = program.replace("bad=bad", "bad=True")
        body = f"attnmem.compare(lambda: {program}, lambda: {base}, min_saving={one.saving!r})"
    else:
        marks.append(f"memory_budget({one.gates[gate]})")
        body = program
    lines = [f"@pytest.mark.{mark}" for mark in marks]
    lines += [f"def test_{gate}_{one.name}({', '.join(taken)}):", f"    {body}", ""]
    return "\n".join(lines)


def session(folder: Path, file: str, variant: str, backend: str, *options: str) -> Endings:
    """The endings of one file's tests."""
    failures = _Failures()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIANT, variant)
        backend = f"--attnmem-backend={backend}"
        results = inner_session.rows(folder, file, backend, *options, plugins=(failures,))
    return dict(_endings(results, failures.texts, variant))


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    """Pin the threads of the CPU's kernels, each of which has scratch of its own."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Failures:
    """Collects the texts of tests that failed."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.texts[report.nodeid] = report.longreprtext


def _endings(
    results: list[dict], texts: Mapping[str, str], variant: str
) -> Iterator[tuple[tuple[str, str, str], Ending]]:
    for row in results:
        named = re.fullmatch(r".*::test_([a-z]+)_(\w+)\[(.*)\]", row["nodeid"])
        if named is None:
            raise RuntimeError(f"{row['nodeid']} is not a test of a pair")
        gate, name, sizes = named.groups()
        known = next((one for one in ("good", "bad") if one in sizes.split("-")), variant)
        text = texts.get(row["nodeid"], "")
        agreed = (row["outcome"] == "over") is bool(text)
        yield (
            (name, gate, known),
            Ending(row["outcome"] if agreed else "error", row["reason"] or text, text),
        )

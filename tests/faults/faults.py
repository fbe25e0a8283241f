"""Faults at each step of a session, and what the session says of them.

``test_faults.py`` asserts each row, and ``page.py`` writes the table of
docs/evidence/reliability.md.
"""

import errno
from functools import partial
from typing import NamedTuple

OURS = "pytest_attnmem."
FULL = OSError(errno.ENOSPC, "No space left on device")
READ_ONLY = OSError(errno.EROFS, "Read-only file system")

#: Four tests: one within its budget, one over it, one with an error of its own, one of a baseline.
SUITE = """
import pytest
from scripted import memory

@pytest.mark.memory_budget("64 B")
def test_within(): memory.use(10)

@pytest.mark.memory_budget("64 B")
def test_over(): memory.use(100)

@pytest.mark.memory_budget("64 B")
def test_own_error():
    memory.use(10)
    raise LookupError("mine")

@pytest.mark.memory_budget
def test_recorded(): memory.use(30)
"""
#: What is in the baseline before: the suite's update would change one entry and add another.
BASELINE = """{"schema": 1, "entries": [
{"test": "test_suite.py::test_recorded", "metric": "peak", "on": "scripted", "bytes": 20}
]}
"""


class Fault(NamedTuple):
    """An error that a function raises each time."""

    step: str
    what: str
    target: str
    """The function, by its module."""
    error: BaseException
    lines: tuple[str, ...] = ()
    """Lines that the session prints; the error alone, if there are none."""
    judged: bool = False
    """True if the tests are judged all the same."""
    body: bool = True
    """True if the body runs, and so can raise its own error."""
    written: bool = False
    """True if the baseline is written all the same."""

    @property
    def says(self) -> tuple[str, ...]:
        """The lines that the session prints."""
        return self.lines or (f"E   {type(self.error).__name__}: {self.error}",)


_measure, _judge = partial(Fault, "measure"), partial(Fault, "judge")
_write = partial(Fault, "write", judged=True)
_report = partial(Fault, "report", judged=True, written=True)


def _not_written(name: str, why: str) -> str:
    return f"attnmem: {name} could not be written: {why}"


_WINDOW = f"{OURS}measurement.window.Window"
FAULTS = (
    _measure(
        "an error where a window begins",
        f"{OURS}measurement.window_stack.WindowStack.open",
        RuntimeError("no counters"),
        body=False,
    ),
    _measure(
        "an error where a window reads the device",
        f"{_WINDOW}.add",
        RuntimeError("device lost"),
        ("E   RuntimeError: device lost", "E   LookupError: mine"),
    ),
    _measure("no memory for the measurement", f"{_WINDOW}.close", MemoryError("no room")),
    _measure(
        "an error in the collection of garbage", "gc.collect", MemoryError("no room"), body=False
    ),
    _judge(
        "an error in the judgement", f"{OURS}plugin.call_phase.judge_body", RuntimeError("a fault")
    ),
    _judge(
        "an error in the comparison with the baseline",
        f"{OURS}plugin.baseline_check.BaselineCheck.judge",
        MemoryError("no room"),
    ),
    _write(
        "a full disk",
        "os.fsync",
        FULL,
        (
            "attnmem: b.json was not written: cannot write {folder}/b.json: No space left on"
            " device",
            "attnmem: cannot write {folder}/rows.json: No space left on device",
        ),
    ),
    _write(
        "a file system that became read-only",
        "tempfile.mkstemp",
        READ_ONLY,
        ("attnmem: b.json was not written: cannot write {folder}/b.json: Read-only file system",),
    ),
    _write(
        "no memory for the baseline's text",
        f"{OURS}baselines.file.render",
        MemoryError("no room"),
        (_not_written("b.json", "MemoryError: no room"),),
    ),
    _report(
        "no memory for the totals",
        f"{OURS}report.summary.summarise",
        MemoryError("no room"),
        (
            _not_written("the reports", "MemoryError: no room"),
            _not_written("the budgets", "MemoryError: no room"),
        ),
    ),
    _report(
        "an error in the text of a report",
        f"{OURS}report.json.render",
        RuntimeError("a fault"),
        (_not_written("the json report", "RuntimeError: a fault"),),
    ),
    _report(
        "an error in the table",
        f"{OURS}report.terminal.render_table",
        RuntimeError("a fault"),
        (_not_written("the budgets", "RuntimeError: a fault"),),
    ),
)


class Kill(NamedTuple):
    """A moment of writing at which the process is killed, by the function that it calls next."""

    what: str
    target: str
    new: bool
    """True if the file has its new contents; it has its old ones otherwise."""


KILLS = (
    Kill("kill -9 before the new file is complete", "os.fsync", new=False),
    Kill("kill -9 before the new file has its name", "os.replace", new=False),
    Kill("kill -9 before the folder is on the disk", f"{OURS}contents._sync_folder", new=True),
)


class Session(NamedTuple):
    """A suite in which something happens to its process, and what comes of it."""

    step: str
    what: str
    outcome: str


INTERRUPT = Session(
    "measure",
    "Ctrl-C in a body",
    "exit 2; its budget is `not enforced (the session was stopped: KeyboardInterrupt)`; the"
    " baseline is not written",
)
CLOCK = Session("measure", "clocks that jump back", "the verdicts and bytes of any other session")
FORK = Session(
    "measure",
    "a forked child that goes on as pytest",
    "the child writes no file; the reports and the baseline are those of its parent",
)
LOST_WORKER = Session(
    "report",
    "a worker of pytest-xdist killed in a test",
    "exit 1; its budget is `not enforced (the process died in the test)`; its baseline entry stays",
)
WRITERS = Session(
    "write", "four processes update one baseline at once", "all entries of all four are there"
)
SESSIONS = (INTERRUPT, CLOCK, FORK, LOST_WORKER, WRITERS)

"""Faults: never a green that was not measured, never a lost or mixed baseline, and no litter."""

import importlib
import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from faults import BASELINE, CLOCK, FAULTS, FORK, INTERRUPT, KILLS, LOST_WORKER, SUITE, WRITERS
from page import PAGE, page

from pytest_attnmem.baselines.entries import Entry, Key
from pytest_attnmem.baselines.file import load, update
from pytest_attnmem.report.json import load as load_rows

OPTIONS = ("--attnmem-baseline", "b.json", "--attnmem-update", "all", "--attnmem-report")
#: The files of a suite that the session did not make.
OWN = {"b.json", "conftest.py", "pytest.ini", "scripted.py", "test_suite.py", "__pycache__"}
KEY = Key("test_suite.py::test_recorded", "", "peak", "scripted")
#: A test whose first run makes a child, which uses more and goes on after it.
FORKS = """def test_within(children=[]):
    import os
    if not children:
        children.append(os.fork())
        memory.use(1 if children[0] else 7)
        if children[0]: os.wait()
"""


@pytest.fixture
def session(scripted):
    """A suite with a baseline."""
    scripted.write(SUITE)
    scripted.write(BASELINE, "b.json")
    return scripted


def replace(patch, target, function):
    """Replaces a function by its dotted name, as ``package.module.Class.method``."""
    parts = target.split(".")
    owner = None
    for end in range(len(parts) - 1, 0, -1):
        try:
            owner = importlib.import_module(".".join(parts[:end]))
            break
        except ImportError:
            continue
    for name in parts[end:-1]:
        owner = getattr(owner, name)
    patch.setattr(owner, parts[-1], function)


def files(folder):
    return {path.name for path in folder.iterdir()} - OWN


def ran_with(session, fault):
    def fail(*args, **kwargs):
        raise fault.error

    with pytest.MonkeyPatch.context() as patch:
        replace(patch, fault.target, fail)
        return session.run(*OPTIONS, shown=("-rA", "--tb=short"))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.step}: {fault.what}")
def test_a_fault_is_never_a_pass(session, fault):
    ran = ran_with(session, fault)
    assert ran.result.ret == 1
    passed = {line.rpartition("::")[2] for line in ran.result.outlines if line.startswith("PASSED")}
    assert passed == ({"test_within", "test_recorded"} if fault.judged else set())
    assert "within" not in {row["outcome"] for row in ran.rows} or fault.judged
    for line in fault.says:
        assert line.format(folder=session.path.resolve()) in ran.result.outlines
    assert ("LookupError: mine" in ran.text) is fault.body
    text = (session.path / "b.json").read_text()
    assert load(session.path / "b.json")[KEY].nbytes == (30 if fault.written else 20)
    assert fault.written or text == BASELINE
    assert files(session.path) <= {"rows.json"}

    if fault.step != "measure":
        return
    ran = session.run(*OPTIONS, shown=("-rA",))  # nothing of it stays in the process
    assert ran.outcomes == {"passed": 2, "failed": 2}
    assert ran.summary["within"] == 2


def in_child(work):
    """Runs a function in a fork of this process; returns its exit code, or minus its signal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other threads are idle
        child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return child


def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def record(path, name, nbytes):
    key = Key(f"test_suite.py::{name}", "", "peak", "scripted")
    return update(path, lambda entries: {**entries, key: Entry(nbytes)})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("kill", KILLS, ids=lambda kill: kill.what)
def test_a_killed_writer_leaves_a_whole_file(tmp_path, kill):
    path = tmp_path / "b.json"
    path.write_text(BASELINE)

    def write():
        with pytest.MonkeyPatch.context() as patch:
            replace(patch, kill.target, lambda *args: os.kill(os.getpid(), signal.SIGKILL))
            record(path, "test_recorded", 30)

    assert ended(in_child(write)) == -signal.SIGKILL
    assert load(path)[KEY].nbytes == (30 if kill.new else 20)
    record(path, "test_more", 5)
    assert {key.name: entry.nbytes for key, entry in load(path).items()} == {
        "test_suite.py::test_recorded": 30 if kill.new else 20,
        "test_suite.py::test_more": 5,
    }
    assert os.listdir(tmp_path) == ["b.json"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_writers_at_once_lose_nothing(tmp_path):
    assert WRITERS.what.startswith("four")
    path = tmp_path / "b.json"
    path.write_text(BASELINE)

    def write(number):
        for step in range(5):
            record(path, f"test_{number}_{step}", step)

    children = [in_child(lambda number=number: write(number)) for number in range(4)]
    assert [ended(child) for child in children] == [0, 0, 0, 0]
    assert len(load(path)) == 1 + 4 * 5
    assert os.listdir(tmp_path) == ["b.json"]


def test_an_interrupt_is_not_enforced_and_writes_no_baseline(session):
    session.write(SUITE.replace('raise LookupError("mine")', "raise KeyboardInterrupt"))
    ran = session.run(*OPTIONS)
    assert f"exit {ran.result.ret}; " in INTERRUPT.outcome
    assert f"`{ran.row('test_own_error')['outcome']} (" in INTERRUPT.outcome
    assert f"({ran.row('test_own_error')['reason']})" in INTERRUPT.outcome
    assert ran.outcome("test_within") == "within"
    assert (session.path / "b.json").read_text() == BASELINE
    assert "b.json was not written: the session was stopped" in ran.result.outlines


def test_clocks_that_jump_back_change_no_verdict(session):
    assert CLOCK.what == "clocks that jump back"
    plain = session.run(*OPTIONS)
    numbers = iter(range(10**9, 0, -1000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: float(next(numbers)))
        patch.setattr(time, "perf_counter", lambda: float(next(numbers)))
        ran = session.run(*OPTIONS)
    kept = ("nodeid", "outcome", "peak_bytes", "reason")
    assert [[row[name] for name in kept] for row in ran.rows] == [
        [row[name] for name in kept] for row in plain.rows
    ]
    assert len(load_rows(session.path / "rows.json")[0]) == 4


def test_a_forked_child_writes_no_files(session):
    assert FORK.step == "measure"
    session.write(SUITE.replace("def test_within(): memory.use(10)", FORKS))
    session._write_ini()
    ran = session.pytester.runpytest_subprocess(
        *OPTIONS, "--attnmem-json", "rows.json", "-pno:cacheprovider", "-k", "within or recorded"
    )
    assert ran.ret == 0
    rows = json.loads((session.path / "rows.json").read_text())["results"]
    assert {row["nodeid"].rpartition("::")[2]: row["peak_bytes"] for row in rows} == {
        "test_within": 1,
        "test_recorded": 30,
    }
    text = ran.stdout.str()
    assert text.count("b.json was not written: this process was forked from the session's") == 1
    assert len(load(session.path / "b.json")) == 2


def test_a_lost_worker_is_not_enforced_and_keeps_its_entry(session):
    pytest.importorskip("xdist")
    kill = "import os; os.kill(os.getpid(), 9)"
    session.write(
        SUITE.replace("def test_recorded(): memory.use(30)", f"def test_recorded(): {kill}")
    )
    ran = session.run("-n1", *OPTIONS)
    assert f"exit {ran.result.ret}; " in LOST_WORKER.outcome
    row = ran.row("test_recorded")
    assert f"`{row['outcome']} ({row['reason']})`" in LOST_WORKER.outcome
    assert ran.outcome("test_within") == "within"
    assert load(session.path / "b.json")[KEY].nbytes == 20
    assert files(session.path) <= {"rows.json"}


def test_the_page_has_these_faults():
    assert page(PAGE.read_text("utf-8")) == PAGE.read_text("utf-8"), "run tests/faults/page.py"

"""``--attnmem-update all|new|prune``: the entries that are written, and those that stay."""

import json
import sys

import pytest

from .baselines import entry, everywhere, needing, read_baseline, states, write_baseline

FILE = "attnmem-baseline.json"


@pytest.mark.parametrize("mode", ["all", "new"])
def test_the_first_time_everything_is_written(scripted, mode):
    scripted.write(needing(100))
    ran = scripted.run("--attnmem-strict=all", f"--attnmem-update={mode}")
    assert ran.outcomes == {"passed": 3}
    assert set(states(ran).values()) == {"new"}
    assert ran.outcome("test_bare") == "within"
    written = {"test_bare": 100, "test_marked": 100, "test_region part": 100}
    assert read_baseline(scripted) == written
    assert f"{FILE} (--attnmem-update {mode}): 3 added" in ran.result.outlines
    ran = scripted.run("--attnmem-strict=all")
    assert ran.outcomes == {"passed": 3}
    assert set(states(ran).values()) == {"same"}


def test_the_table_has_old_and_new(scripted):
    scripted.write(needing(120))
    write_baseline(scripted, *everywhere(100)[:2], entry("test_gone", 7))
    ran = scripted.run("--attnmem-update=all")
    assert ran.outcomes == {"passed": 3}  # the update accepts a regression: it is held to itself
    assert ran.row("test_bare")["limit_bytes"] == 120
    assert ran.row("test_bare")["baseline_bytes"] == 100
    assert sorted(states(ran).values()) == ["new", "stale", "updated", "updated"]
    assert {row["outcome"] for row in ran.rows} == {"within", None}
    assert "baseline: 1 new, 2 updated, 1 stale" in ran.line
    lines = ran.result.outlines
    start = lines.index(f"{FILE} (--attnmem-update all): 2 changed, 1 added, 1 as before")
    assert [" ".join(line.split()) for line in lines[start + 1 : start + 6]] == [
        "test on before after change",
        " ".join(lines[start + 2].split()),
        "test_suite.py::test_bare scripted 100 B 120 B +20 B (+20.0%)",
        "test_suite.py::test_marked scripted 100 B 120 B +20 B (+20.0%)",
        "test_suite.py::test_region [part] scripted - 120 B added",
    ]
    written = {"test_bare": 120, "test_gone": 7, "test_marked": 120, "test_region part": 120}
    assert read_baseline(scripted) == written


def test_new_writes_what_has_no_entry_and_holds_the_rest(scripted):
    scripted.write(needing(120))
    write_baseline(scripted, entry("test_marked", 100), entry("test_bare", 200))
    ran = scripted.run("--attnmem-update=new")
    assert ran.outcomes == {"passed": 2, "failed": 1}
    assert ran.short("test_marked").startswith("FAILED: BudgetExceeded: peak 120 B is 20 B over")
    written = {"test_bare": 200, "test_marked": 100, "test_region part": 120}
    assert read_baseline(scripted) == written


@pytest.mark.parametrize("mode", ["all", "new"])
def test_other_machines_and_tests_that_did_not_run_are_kept(scripted, mode):
    scripted.write(needing(120))
    others = (entry("test_marked", 5, "cpu"), entry("test_elsewhere", 6), entry("test_bare", 7))
    write_baseline(scripted, *others)
    scripted.run(f"--attnmem-update={mode}", "-k", "marked")
    written = {"test_marked cpu": 5, "test_elsewhere": 6, "test_bare": 7, "test_marked": 120}
    assert read_baseline(scripted) == written


def test_what_failed_or_was_not_measured_is_not_written(scripted):
    scripted.tests("""
budget = pytest.mark.memory_budget(100)

@budget
def test_over(): memory.use(101)

@budget
def test_wrong():
    memory.use(50)
    raise ValueError

def test_wrong_after_a_region(attnmem):
    with attnmem.region("part"):
        memory.use(50)
    raise ValueError

@pytest.fixture
def broken():
    yield
    raise ValueError

@budget
def test_torn_down_wrong(broken): memory.use(50)

@budget
def test_skipped():
    memory.use(50)
    pytest.skip()

@pytest.mark.xfail
@budget
def test_expected():
    memory.use(50)
    raise ValueError

@budget
def test_nothing(): pass

@budget
def test_threads():
    memory.problem = "a thread"
    memory.use(50)
""")
    scripted.run("--attnmem-update=all")
    assert read_baseline(scripted) == {"test_over": 101}


@pytest.mark.skipif(not hasattr(pytest, "Subtests"), reason="pytest 9 brought subtests")
def test_what_failed_in_a_subtest_is_not_written(scripted):
    scripted.tests("""
import unittest

@pytest.mark.memory_budget
def test_it(subtests):
    with subtests.test():
        memory.use(50)
        raise ValueError

class TestCase(unittest.TestCase):
    @pytest.mark.memory_budget
    def test_it(self):
        with self.subTest():
            memory.use(50)
            raise ValueError

@pytest.mark.memory_budget
def test_good(subtests):
    with subtests.test():
        memory.use(50)
""")
    scripted.run("--attnmem-update=all")
    assert read_baseline(scripted) == {"test_good": 50}


def test_nothing_to_write_leaves_the_file_alone(scripted):
    scripted.write(needing(100))
    scripted.run("--attnmem-update=all")
    path = scripted.path / FILE
    before = path.read_bytes(), path.stat().st_mtime_ns
    ran = scripted.run("--attnmem-update=all")
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert f"{FILE} (--attnmem-update all): 3 as before" in ran.result.outlines


def test_what_another_session_wrote_meanwhile_is_kept(scripted):
    scripted.write(
        needing(100)
        + f"""
def test_meanwhile():
    with open("{FILE}", "w") as file:
        file.write('{{"schema": 1, "entries": [{{"test": "t", "metric": "peak", "on": "cpu",'
                   ' "bytes": 1}}]}}')
"""
    )
    scripted.run("--attnmem-update=all")
    entries = json.loads((scripted.path / FILE).read_text())["entries"]
    assert {entry["bytes"] for entry in entries} == {1, 100}
    assert len(entries) == 4


def test_the_ini_files_baseline_may_be_missing_when_it_is_written(scripted):
    scripted.ini["attnmem_baseline"] = "other.json"
    scripted.write(needing(100))
    assert scripted.run().result.ret == pytest.ExitCode.USAGE_ERROR
    assert scripted.run("--attnmem-update=all").outcomes == {"passed": 3}
    assert len(read_baseline(scripted, "other.json")) == 3


def test_a_folder_that_cannot_be_written_is_one_line_and_fails(scripted, monkeypatch):
    scripted.write(needing(100))

    def refused(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refused)
    ran = scripted.run("--attnmem-update=all")
    assert ran.outcomes == {"passed": 3}
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    assert (
        f"attnmem: {FILE} was not written: cannot write {scripted.path / FILE}: Permission denied"
        in ran.result.outlines
    )
    assert "INTERNALERROR" not in ran.text


def test_without_a_terminal_it_is_written_all_the_same(scripted):
    scripted.write(needing(100))
    scripted.run("--attnmem-update=all", "-pno:terminal", shown=())
    assert len(read_baseline(scripted)) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="links are POSIX's")
def test_a_linked_file_is_written_where_it_is(scripted):
    scripted.write(needing(100))
    real = write_baseline(scripted, name="shared/real.json")
    (scripted.path / FILE).symlink_to(real)
    scripted.run("--attnmem-update=all")
    assert (scripted.path / FILE).is_symlink()
    assert len(json.loads(real.read_text())["entries"]) == 3


LEFT_OUT = """
import pytest
from scripted import memory

def test_takes(attnmem): memory.use(1)
def test_takes_too(attnmem): memory.use(1)
def test_region(attnmem):
    with attnmem.region("part"): memory.use(2)

def test_nothing(): pass
def test_fails(): raise ValueError
def test_good(): memory.use(3)
@pytest.mark.skip
def test_skipped(): memory.use(3)
"""


@pytest.mark.parametrize("workers", ["", pytest.param("-n1", marks=pytest.mark.thorough)])
def test_what_is_left_out_is_counted_and_named(scripted, workers):
    scripted.write(LEFT_OUT)
    ran = scripted.run("--attnmem-update=all", *workers.split())
    lines = ran.result.outlines
    start = lines.index(f"{FILE}: 4 left out, because nothing is known to record")
    assert lines[start + 1 : start + 4] == [
        "  2 without memory_budget, whose attnmem fixture makes them measure their regions only:"
        " test_suite.py::test_takes, test_suite.py::test_takes_too",
        "  1 nothing was allocated: test_suite.py::test_nothing",
        "  1 the test failed: ValueError: test_suite.py::test_fails",
    ]
    assert read_baseline(scripted) == {"test_good": 3, "test_region part": 2}


def test_quiet_has_the_counts_alone(scripted):
    scripted.write(LEFT_OUT)
    write_baseline(scripted, entry("test_good", 2))
    lines = scripted.run("--attnmem-update=all", "-q").result.outlines
    start = lines.index(f"{FILE} (--attnmem-update all): 1 changed, 1 added")
    assert lines[start + 1] == f"{FILE}: 4 left out, because nothing is known to record"
    assert lines[start + 2].startswith("attnmem: ")


pytest.importorskip("xdist")

GROUPED = """
import pytest
from scripted import memory

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.memory_budget
def test_grouped(n): memory.use(n)
"""


def test_the_file_is_as_without(scripted):
    scripted.write(needing(100) + GROUPED)
    path = scripted.path / "attnmem-baseline.json"
    scripted.run("--attnmem-update=all")
    alone = path.read_bytes()
    path.unlink()
    ran = scripted.run("--attnmem-update=all", "-n2", "--dist=loadgroup")
    assert ran.outcomes == {"passed": 6}
    assert path.read_bytes() == alone
    ran = scripted.run("--attnmem-strict=all", "-n1", "--dist=loadgroup")
    assert ran.outcomes == {"passed": 6}
    assert set(states(ran).values()) == {"same"}


@pytest.mark.thorough
def test_regressions_and_what_is_stale_are_as_without(scripted):
    scripted.write(needing(120))
    write_baseline(scripted, *everywhere(100), entry("test_gone", 7))
    alone, spread = scripted.run(), scripted.run("-n2")
    assert spread.outcomes == {"failed": 3}
    assert states(spread) == states(alone)
    assert spread.line == alone.line
    assert "4 stale" not in spread.text
    ran = scripted.run("-n1", "--attnmem-update=prune")
    assert read_baseline(scripted).keys() == {"test_bare", "test_marked", "test_region part"}
    assert ran.outcomes == {"failed": 3}


def test_a_worker_that_died_is_not_the_whole_suite(scripted):
    scripted.write(needing(100) + "\nimport os\ndef test_die(): os._exit(1)\n")
    write_baseline(scripted, *everywhere(100), entry("test_gone", 7))
    ran = scripted.run("-n1", "--attnmem-update=prune")
    assert "prune needs the whole suite: a worker crashed" in ran.text
    assert "test_gone" in read_baseline(scripted)
    assert "INTERNALERROR" not in ran.text


@pytest.mark.thorough
def test_left_out_tests_are_noticed_in_the_workers(scripted):
    scripted.write(needing(100))
    write_baseline(scripted, *everywhere(100), entry("test_gone", 7))
    ran = scripted.run("-n1", "-k", "not bare", "--attnmem-update=prune")
    assert "prune needs the whole suite: a test was left out" in ran.text

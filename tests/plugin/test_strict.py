"""``--attnmem-strict``: the tests that fail where a budget is not enforced."""

import pytest

from pytest_attnmem.budgets.budget import Obstacle

SUITE = """
import pytest
from scripted import memory

@pytest.mark.memory_budget(10)
def test_nothing(): pass

@pytest.mark.memory_budget(10, metric="reserved")
def test_unmeasured(): memory.use(1)

def test_region(attnmem):
    with attnmem.region("part", 10):
        pass

def test_left(attnmem):
    with pytest.raises(ValueError), attnmem.region("part", 10):
        raise ValueError

def test_check(attnmem):
    attnmem.check(attnmem.measure(int), 10)

def test_compare(attnmem):
    attnmem.compare(lambda: memory.use(1), int)

def test_caught(attnmem):
    with pytest.raises(AssertionError), attnmem.region("part", 10):
        pass

@pytest.mark.memory_budget
def test_bare(): memory.use(1)

@pytest.mark.memory_budget({"cuda": 1})
def test_elsewhere(): memory.use(1)

def test_region_without_a_limit(attnmem):
    with attnmem.region("part"):
        pass

@pytest.mark.memory_budget(10)
def test_within(): memory.use(10)

def test_unmarked(): pass
"""

#: The reason and the obstacle of each test that has a limit of its own, and could keep it.
PROMISED = {
    "test_nothing": ("nothing was allocated", Obstacle.NOTHING_ALLOCATED),
    "test_unmeasured": ("reserved is not measured on scripted", Obstacle.METRIC_NOT_COUNTED),
    "test_region": ("nothing was allocated", Obstacle.NOTHING_ALLOCATED),
    "test_left": ("the region was left by ValueError", Obstacle.REGION_LEFT),
    "test_check": ("nothing was allocated", Obstacle.NOTHING_ALLOCATED),
    "test_compare": (
        "the base was not measured: nothing was allocated",
        Obstacle.NOT_COMPARED,
    ),
    "test_caught": ("nothing was allocated", Obstacle.NOTHING_ALLOCATED),
}
EXCUSED = {
    "test_bare": "no baseline entry; --attnmem-update new writes one",
    "test_elsewhere": "no limit for scripted, only for cuda",
}


def test_a_test_that_promised_bytes_and_could_keep_it_fails(scripted):
    scripted.write(SUITE)
    ran = scripted.run()
    assert ran.outcomes == {"failed": len(PROMISED), "passed": 5}
    for test, (reason, obstacle) in PROMISED.items():
        assert ran.short(test).endswith(f"not enforced: {reason}"), test
        lines = [line.removeprefix("E").strip() for line in ran.report(test)]
        at = next(at for at, line in enumerate(lines) if line.endswith(f"not enforced: {reason}"))
        assert lines[at + 1] == obstacle.remedy, test
    assert ran.report("test_nothing")[0] == "not enforced: nothing was allocated"
    for test, reason in EXCUSED.items():
        assert ran.outcome(test) == f"not enforced: {reason}"


def test_off_fails_none_and_all_fails_each(scripted):
    scripted.write(SUITE)
    lenient = scripted.run("--attnmem-strict=off")
    assert lenient.outcomes == {"passed": len(PROMISED) + 4, "failed": 1}  # pytest.raises, alone
    scripted.ini["attnmem_strict"] = "all"
    ran = scripted.run()
    assert ran.outcomes == {"failed": len(PROMISED) + len(EXCUSED), "passed": 3}
    for test, reason in EXCUSED.items():
        assert ran.short(test) == f"FAILED: Failed: not enforced: {reason}"
    assert [row["outcome"] for row in ran.rows] == [row["outcome"] for row in lenient.rows]
    assert "(--attnmem-strict all)" not in ran.text


@pytest.mark.parametrize(
    ("given", "ini", "message"),
    [
        (["--attnmem-strict"], "", "--attnmem-strict: no value"),
        (["--attnmem-strict", "."], "", "--attnmem-strict: '.' is not a value"),
        ([], "true", "attnmem_strict: 'true' is not a value"),
    ],
)
def test_the_flag_of_old_is_told_its_values(scripted, given, ini, message):
    scripted.write("")
    scripted.ini["attnmem_strict"] = ini
    ran = scripted.run(*given)
    assert ran.result.ret == pytest.ExitCode.USAGE_ERROR
    assert ran.result.errlines[0] == (f"ERROR: {message}; write off, marked or all")


OWN_ENDINGS = """
import pytest, unittest
from pytest_attnmem import BudgetExceeded, NotEnforced
from scripted import memory

@pytest.mark.memory_budget(10)
def test_skips(): pytest.skip("later")

@pytest.mark.memory_budget(10)
def test_xfails(): pytest.xfail("known")

def test_skips_in_a_region(attnmem):
    with attnmem.region("part", 10):
        pytest.skip("later")

@pytest.mark.memory_budget(10)
@pytest.mark.xfail(strict=True, raises=NotEnforced)
def test_expected(): pass

@pytest.mark.memory_budget(10)
@pytest.mark.xfail(strict=True, raises=BudgetExceeded)
def test_over_is_expected(): pass

@pytest.mark.memory_budget(10)
@pytest.mark.skip
def test_skipped(): pass

@pytest.mark.memory_budget(10)
class TestCase(unittest.TestCase):
    def test_skips(self): self.skipTest("later")
    def test_nothing(self): pass
"""


def test_a_test_keeps_the_ending_that_it_chose(scripted):
    scripted.write(OWN_ENDINGS)
    ran = scripted.run()
    assert ran.outcomes == {"skipped": 4, "xfailed": 2, "failed": 2}
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    wrong = "FAILED: Failed: not enforced: nothing was allocated"
    assert ran.short("test_over_is_expected") == ran.short("TestCase::test_nothing") == wrong


def test_a_baseline_entry_is_a_promise_where_it_was_recorded(scripted):
    suite = """
from scripted import memory

def test_whole(): memory.use({used})

def test_part(attnmem):
    with attnmem.region("part"): memory.use({used})
"""
    scripted.write(suite.format(used=8))
    assert scripted.run("--attnmem-update=all").outcomes == {"passed": 2}
    scripted.write(suite.format(used=0).replace("memory.use(0)", "pass"))
    ran = scripted.run()
    assert ran.short("test_whole") == "FAILED: Failed: not enforced: nothing was allocated"
    baseline = scripted.path / "attnmem-baseline.json"
    baseline.write_text(baseline.read_text().replace('"scripted"', '"elsewhere"'))
    assert scripted.run().outcomes == {"passed": 2}
    assert scripted.run("--attnmem-strict=all").outcomes == {"failed": 1, "passed": 1}


def test_what_no_backend_was_named_for_is_no_failure(suite):
    suite.tests("""
@pytest.mark.memory_budget(10, metric="reserved")
def test_it(): torch.ones(8)
""")
    assert suite.run().outcomes == {"passed": 1}
    assert suite.run("--attnmem-backend=cpu").outcomes == {"failed": 1}
    assert suite.run("--attnmem-strict=all").outcomes == {"failed": 1}


@pytest.mark.parametrize(("skips", "line"), [(1, "1 test was"), (2, "2 tests were")])
def test_skipped_tests_fail_the_session_which_says_so(scripted, skips, line):
    scripted.tests(f"""
@pytest.mark.skip(reason="no driver")
{"@pytest.mark.memory_budget(10)" * (skips - 1)}
def test_skipped(): pass

@pytest.mark.xfail(strict=True)
@pytest.mark.memory_budget(10)
def test_expected(): raise ValueError("wrong")

@pytest.mark.skip
def test_unmarked(): pass

@pytest.mark.memory_budget(10)
def test_within(): memory.use(10)
""")
    assert scripted.run().result.ret == pytest.ExitCode.OK
    ran = scripted.run("--attnmem-strict=all")
    assert ran.outcomes == {"passed": 1, "skipped": 2, "xfailed": 1}
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    assert f"attnmem: {line} not enforced (--attnmem-strict all)" in ran.result.outlines
    silent = scripted.run("--attnmem-strict=all", "-pno:terminal", shown=())
    assert silent.result.ret == pytest.ExitCode.TESTS_FAILED


def test_tests_that_failed_anyway_are_not_counted_twice(scripted):
    ran = scripted.tests("""
@pytest.fixture
def broken(): raise ValueError

@pytest.mark.memory_budget(10)
def test_setup(broken): pass

@pytest.mark.memory_budget(10)
def test_call(): raise ValueError("wrong")

@pytest.mark.memory_budget("64 MB")
def test_bad(): pass

@pytest.mark.memory_budget(10, backend="absent")
def test_elsewhere(): pass

@pytest.mark.memory_budget(10)
def test_nothing(): pass
""").run("--attnmem-strict=all")
    assert ran.outcomes == {"failed": 2, "errors": 3}
    assert len(ran.rows) == 5
    assert {row["outcome"] for row in ran.rows} == {"not enforced"}
    assert ran.short("test_call") == "FAILED: ValueError: wrong"
    assert "not enforced: " not in "\n".join(ran.report("test_call"))
    assert "(--attnmem-strict all)" not in ran.text


@pytest.fixture
def searching(scripted):
    """A suite whose programs ask for more than the device has, and go on."""
    scripted.head = """
import unittest
from contextlib import suppress
import pytest
from scripted import OutOfMemory, memory

def search(used):
    with suppress(OutOfMemory): memory.refuse()
    memory.use(used)
"""
    return scripted


def test_what_was_held_is_judged(searching):
    ran = searching.tests("""
@pytest.mark.memory_budget(100)
class TestIt(unittest.TestCase):
    def test_within(self): search(100)
    def test_over(self): search(101)
    def test_escaped(self): memory.refuse()

@pytest.mark.memory_budget(100)
def test_raised():
    with pytest.raises(OutOfMemory): memory.refuse()
    memory.use(100)

@pytest.mark.memory_budget(100)
def test_another_error():
    search(100)
    raise ValueError

@pytest.mark.memory_budget(100)
def test_caused():
    try: memory.refuse()
    except OutOfMemory as error: raise ValueError from error

@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [4, 8])
def test_grows(N): search(N) if N > 2 else memory.use(N)

def test_parts_within(attnmem):
    with attnmem.region("search", 100): search(100)
    attnmem.check(attnmem.measure(search, 100), 100)

def test_part_over(attnmem):
    with attnmem.region("search", 100): search(101)

def test_part_escaped(attnmem):
    with attnmem.region("search", 100): memory.refuse()
""").run("--attnmem-strict=off")
    assert ran.outcomes == {"passed": 3, "failed": 8}
    went_on = "ran out of memory and went on: an allocation was refused"
    for name in ("TestIt::test_within", "test_raised"):
        assert ran.outcome(name) == f"within: {went_on}"
        assert ran.row(name)["out_of_memory"] == ""
    peak = "over: peak 101 B exceeds budget 100 B by 1 B on scripted"
    assert ran.outcome("TestIt::test_over") == peak
    assert f"  {went_on}" in ran.report("TestIt.test_over")
    assert ran.outcome("test_another_error") == "not enforced: the test failed: ValueError"
    for name in ("TestIt::test_escaped", "test_caused"):
        escaped = "over: out of memory on scripted: tried to allocate 1.0 TiB; budget 100 B"
        assert ran.outcome(name) == escaped
    assert ran.outcome("test_grows[8]") == f"not enforced: {went_on}"
    assert "search: peak 101 B exceeds budget 100 B" in ran.short("test_part_over")
    assert "tried to allocate 1.0 TiB" in ran.short("test_part_escaped")


@pytest.mark.parametrize("option", ["--attnmem-default=100 B", "--attnmem-update=all"])
def test_a_test_without_a_marker_is_judged_by_what_it_held(searching, option):
    ran = searching.tests("\ndef test_it(): search(100)").run(option)
    assert ran.outcomes == {"passed": 1}
    assert (ran.row("test_it")["peak_bytes"], ran.row("test_it")["out_of_memory"]) == (100, "")

"""The second run, which lists held tensors: its errors and its output are not reported."""

import xml.etree.ElementTree as ET

import pytest

HEAD = """
import asyncio, logging, sys, unittest, warnings
import pytest
import torch

runs = []
"""


BODY = f"""{HEAD}
def body():
    torch.ones(4096)
    runs.append(1)
    if len(runs) > 1: ENDED

@pytest.mark.memory_budget("1 KiB")
def test_marker(): body()

def test_check(attnmem): attnmem.check(attnmem.measure(body), "1 KiB")

def test_after(): pass
"""


@pytest.mark.parametrize(
    ("ended", "shown"),
    [
        ("sys.exit(3)", "SystemExit: 3"),
        ("raise asyncio.CancelledError", "CancelledError"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("pytest.exit('enough', 0)", ""),
        ("pytest.exit('enough', 3)", ""),
        ("raise KeyboardInterrupt", ""),
    ],
)
@pytest.mark.parametrize("how", ["marker", "check"])
def test_however_it_ends_the_verdict_stands(suite, how, ended, shown):
    suite.write(BODY.replace("ENDED", ended))
    ran = suite.run("-k", f"{how} or after")
    assert ran.outcome(f"test_{how}", "check" if how == "check" else "") == (
        "over: peak 16.0 KiB exceeds budget 1.0 KiB (16.0x) on cpu"
    )
    if shown:
        assert ran.outcomes == {"failed": 1, "passed": 1, "deselected": 1}
        assert f"held tensors are unknown: the second run raised {shown}\n" in ran.text
    else:  # the session is stopped
        code = {"0": 1, "3": 3}.get(ended[-2:-1], pytest.ExitCode.INTERRUPTED)
        assert (ran.outcomes.get("passed", 0), ran.result.ret) == (0, code)


def test_what_it_prints_warns_of_and_records_is_told_once(suite):
    suite.write(f"""{HEAD}
@pytest.mark.memory_budget("1 KiB")
def test_it(record_property):
    torch.ones(4096)
    record_property("seed", 1)
    print("to stdout")
    sys.stdout.buffer.write(b"")
    print("to stderr", file=sys.stderr)
    warnings.warn("careful")
""")
    ran = suite.run("--junitxml=junit.xml", "-ojunit_family=legacy", "-Wdefault")
    assert ran.outcomes == {"failed": 1, "warnings": 1}
    assert "held at the peak (1 tensor)" in ran.text
    assert [ran.result.outlines.count(line) for line in ("to stdout", "to stderr")] == [1, 1]
    properties = ET.parse(suite.path / "junit.xml").iter("property")
    assert [found.get("name") for found in properties].count("seed") == 1


@pytest.mark.parametrize("fixture", ["capsys", "capfdbinary"])
def test_a_test_that_reads_what_it_prints_can_do_so_twice(suite, fixture):
    suite.write(f"""{HEAD}
@pytest.mark.memory_budget("1 KiB")
def test_it({fixture}):
    torch.ones(4096)
    print("said")
    assert len({fixture}.readouterr().out) == 5
""")
    assert "held at the peak (1 tensor)" in suite.run().text


@pytest.mark.skipif(not hasattr(pytest, "Subtests"), reason="pytest 9 has subtests")
@pytest.mark.parametrize("kind", ["fixture", "unittest"])
def test_subtests_are_reported_once_and_go_on(suite, kind):
    suite.write(f"""{HEAD}
@pytest.mark.memory_budget("1 KiB")
def test_fixture(subtests):
    for number in range(3):
        with subtests.test("part", number=number):
            kept = torch.ones(4096)
            assert number != 1

class TestIt(unittest.TestCase):
    @pytest.mark.memory_budget("1 KiB")
    def test_unittest(self):
        for number in range(3):
            with self.subTest("part", number=number):
                kept = torch.ones(4096)
                assert number != 1
""")
    ran = suite.run("-k", kind, "--junitxml=junit.xml")
    assert ran.text.count("SUBFAILED[part] (number=1)") == 1
    assert "held at the peak" in ran.text
    assert "was held is not known" not in ran.text


@pytest.mark.skipif(not hasattr(pytest, "Subtests"), reason="pytest 9 has subtests")
def test_the_tensors_of_a_region_in_a_subtest_are_a_section_of_its_test(suite):
    suite.write(f"""{HEAD}
def test_it(attnmem, subtests):
    with subtests.test(), attnmem.region("part", "1 KiB"):
        torch.ones(4096)
""")
    ran = suite.run()
    _, _, section = ran.text.partition("Captured memory budget call")
    assert "held at the peak (1 tensor):" in section
    assert "16.0 KiB  [4096] float32  ones  test_suite.py:10" in section


def test_logs_and_kept_streams_of_other_runs_are_in_no_report(suite):
    ran = suite.tests("""
import logging, sys

stderr = sys.stderr  # as loguru keeps it

@pytest.mark.memory_budget("O(1)")
@pytest.mark.parametrize("N", [512])
def test_it(N, caplog):
    logging.getLogger("model").warning("a log of the body")
    stderr.write("to a stream of its own\\n")
    print("printed")
    assert [record.message for record in caplog.records] == ["a log of the body"]
    torch.empty(N)
""").run("-rN")
    assert ran.outcome("test_it[512]").startswith("over: peak grows as 4*N")
    lines = ran.report("test_it[512]")
    for text in ("a log of the body", "to a stream of its own", "printed"):
        assert sum(text in line for line in lines) == 1


@pytest.fixture(autouse=True, scope="module")
def _what_a_profiler_imports():
    """It can be imported once only, and pytester forgets what was imported meanwhile."""
    import torch._inductor.config  # noqa: F401


PROFILERS = {
    "torch.profiler": "torch.profiler.profile()",
    "with memory": "torch.profiler.profile(profile_memory=True)",
    "autograd": "torch.autograd.profiler.profile()",
    "legacy": "torch.autograd.profiler_legacy.profile()",
}


@pytest.mark.parametrize("profiler", PROFILERS.values(), ids=PROFILERS)
def test_a_profiler_of_the_tests_own_works_and_the_budget_is_not_enforced(suite, profiler):
    ran = suite.tests(f"""
@pytest.mark.memory_budget("1 KiB")
def test_profiled():
    torch.ones(16)
    with {profiler} as profiler:
        torch.ones(4096)
    assert "aten::ones" in {{event.key for event in profiler.key_averages()}}

@pytest.mark.memory_budget("1 KiB", exact=True)
def test_next(): torch.ones(256)
""").run("-Wignore::FutureWarning")
    assert ran.outcomes == {"failed": 1, "passed": 1}  # the profiler has its events
    assert ran.outcome("test_profiled") == (
        "not enforced: the test started a profiler, which takes the place of ours"
    )
    assert ran.outcome("test_next") == "within"


def test_a_profiler_that_runs_already_is_not_disturbed(suite):
    ran = suite.tests("""
@pytest.fixture
def profiler():
    with torch.profiler.profile() as profiler:
        yield profiler
    assert "aten::ones" in {event.key for event in profiler.key_averages()}

@pytest.mark.memory_budget("1 KiB")
def test_it(profiler): torch.ones(4096)
""").run()
    assert ran.outcomes == {"failed": 1}  # not in the teardown of the fixture
    assert ran.outcome("test_it") == "not enforced: another profiler is running on this thread"


def test_what_its_fixtures_do_is_put_back(suite):
    ran = suite.tests("""
import random

TABLE, EVENTS = {}, []

@pytest.fixture
def layer():
    print("made")
    torch.manual_seed(3), random.seed(3)
    TABLE["layer"] = torch.ones(64)
    yield TABLE["layer"]
    del TABLE["layer"]
    EVENTS.append("ended")

def test_it(layer): layer * torch.rand(64) * random.random()

def test_after():
    found = torch.rand(1), random.random()
    torch.manual_seed(3), random.seed(3)
    torch.rand(64), random.random()
    assert found == (torch.rand(1), random.random())
    assert (TABLE, EVENTS) == ({}, ["ended"])
""").run("--attnmem-backend=cpu", "--attnmem-update=all", "-rP")
    assert (ran.outcomes, ran.text.count("made\n")) == ({"passed": 2}, 1)


def test_what_its_fixtures_do_at_another_size_is_put_back(suite):
    ran = suite.tests("""
TABLE = {}

@pytest.fixture
def layer(N):
    print("made")
    TABLE["layer"] = torch.ones(N, N)
    yield TABLE["layer"]
    del TABLE["layer"]

@pytest.mark.memory_budget("1 KiB")
@pytest.mark.parametrize("N", [32])
def test_it(layer, N): layer * layer
""").run("--attnmem-backend=cpu")
    assert (ran.outcomes, ran.text.count("made\n")) == ({"failed": 1}, 1)
    assert "[32, 32] float32  mul  test_suite.py:15  in test_it  ← N·N" in ran.text

"""The second run, which lists held tensors: its errors and its output are not reported."""

import xml.etree.ElementTree as ET

import pytest

HEAD = """
import asyncio, logging, sys, unittest, warnings
import pytest
import torch

runs = []
"""


@pytest.mark.parametrize(
    ("ended", "shown"),
    [
        ("sys.exit(3)", "SystemExit: 3"),
        ("raise asyncio.CancelledError", "CancelledError"),
        ("raise GeneratorExit", "GeneratorExit"),
    ],
)
@pytest.mark.parametrize("how", ["marker", "check"])
def test_however_it_ends_the_verdict_stands(suite, how, ended, shown):
    suite.write(f"""{HEAD}
def body():
    torch.ones(4096)
    runs.append(1)
    if len(runs) > 1: {ended}

@pytest.mark.memory_budget("1 KiB")
def test_marker(): body()

def test_check(attnmem): attnmem.check(attnmem.measure(body), "1 KiB")

def test_after(): pass
""")
    ran = suite.run("-k", f"{how} or after")
    assert ran.outcomes == {"failed": 1, "passed": 1, "deselected": 1}
    region = "check" if how == "check" else ""
    assert ran.outcome(f"test_{how}", region) == (
        "over: peak 16.0 KiB exceeds budget 1.0 KiB (16.0x) on cpu"
    )
    assert f"held tensors are unknown: the second run raised {shown}\n" in ran.text


@pytest.mark.parametrize("how", ["marker", "check"])
@pytest.mark.parametrize("code", [0, 3])
def test_a_stop_in_it_stops_the_session_and_the_verdict_stands(suite, how, code):
    suite.write(f"""{HEAD}
def body():
    torch.ones(4096)
    runs.append(1)
    if len(runs) > 1: pytest.exit("enough", {code})

@pytest.mark.memory_budget("1 KiB")
def test_marker(): body()

def test_check(attnmem): attnmem.check(attnmem.measure(body), "1 KiB")

def test_after(): pass
""")
    ran = suite.run("-k", f"{how} or after")
    assert ran.outcomes.get("passed", 0) == 0
    assert ran.result.ret == (code or pytest.ExitCode.TESTS_FAILED)
    assert ran.outcome(f"test_{how}", "check" if how == "check" else "") == (
        "over: peak 16.0 KiB exceeds budget 1.0 KiB (16.0x) on cpu"
    )


def test_an_interrupt_is_one(suite):
    suite.write(f"""{HEAD}
@pytest.mark.memory_budget("1 KiB")
def test_it():
    torch.ones(4096)
    runs.append(1)
    if len(runs) > 1: raise KeyboardInterrupt
""")
    assert suite.run().result.ret == pytest.ExitCode.INTERRUPTED


def test_a_unittest_that_fails_only_then_says_so(suite):
    suite.write(f"""{HEAD}
class TestIt(unittest.TestCase):
    @pytest.mark.memory_budget("1 KiB")
    def test_it(self):
        torch.ones(4096)
        runs.append(1)
        self.assertEqual(len(runs), 1)
""")
    ran = suite.run()
    assert ran.outcomes == {"failed": 1}
    assert ran.report("TestIt.test_it")[-2] == (
        "  held tensors are unknown: the second run raised AssertionError: 2 != 1"
    )


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
    suite.write("""
import logging, sys
import pytest, torch

stderr = sys.stderr  # as loguru keeps it

@pytest.mark.memory_budget("O(1)")
@pytest.mark.parametrize("N", [512])
def test_it(N, caplog):
    logging.getLogger("model").warning("a log of the body")
    stderr.write("to a stream of its own\\n")
    print("printed")
    assert [record.message for record in caplog.records] == ["a log of the body"]
    torch.empty(N)
""")
    ran = suite.run("-rN")
    assert ran.outcome("test_it[512]").startswith("over: peak grows as 4*N")
    lines = ran.report("test_it[512]")
    for text in ("a log of the body", "to a stream of its own", "printed"):
        assert sum(text in line for line in lines) == 1

"""A limit is held to where tensors are, though a program names the device late and runs again."""

import pytest

pytestmark = pytest.mark.usefixtures("simulation_imported")

NAMED_LATER = """
import unittest

@pytest.mark.memory_budget(8192, exact=True)
def test_region(attnmem):
    with attnmem.region("first", "4 KiB"):
        table = torch.ones(16, 256).half()
    table.to("cuda")

def test_without_a_marker(attnmem):
    with attnmem.region("first", "4 KiB"):
        table = torch.ones(16, 256).half()
    with attnmem.region("second", 8192, exact=True):
        table.to("cuda")

def test_by_name(request):
    attnmem = request.getfixturevalue("attnmem")
    with attnmem.region("first", "4 KiB"):
        table = torch.ones(16, 256).half()
    with attnmem.region("second", 8192, exact=True):
        table.to("cuda")

@pytest.mark.memory_budget(8192, exact=True)
def test_check(attnmem):
    seen = attnmem.measure(lambda: torch.ones(16, 256).half())
    attnmem.check(seen, "4 KiB")
    seen.result.to("cuda")

@pytest.mark.memory_budget(64, exact=True)
class TestCase(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _attnmem(self, attnmem): self.attnmem = attnmem

    def test_it(self):
        with self.attnmem.region("first", "4 KiB"):
            torch.ones(16, 256)
        torch.ones(16, device="cuda")
"""


def test_tensors_that_turn_out_to_be_on_the_host_exceed_nothing(suite):
    ran = suite.tests(NAMED_LATER).run("--attnmem-strict=off", "--attnmem-backend=simulated")
    assert ran.outcomes == {"passed": 5}
    found = {(row["nodeid"].partition("::")[2], row["region"]): row for row in ran.rows}
    assert {at: row["peak_bytes"] for at, row in found.items() if row["outcome"] == "within"} == {
        ("test_region", ""): 8192,
        ("test_without_a_marker", "second"): 8192,
        ("test_by_name", "second"): 8192,
        ("test_check", ""): 8192,
        ("TestCase::test_it", ""): 64,
    }
    others = {(*at, row["reason"]) for at, row in found.items() if row["outcome"] != "within"}
    tests = ("test_region", "test_without_a_marker", "test_by_name", "TestCase::test_it")
    nothing = "nothing was allocated"
    assert others == {(test, "first", nothing) for test in tests} | {
        ("test_check", "check", nothing)
    }


NAMED_NEVER = """
runs = []

@pytest.mark.memory_budget
def test_region(attnmem):
    runs.append("region")
    with attnmem.region("first", "8 KiB"):
        table = torch.ones(16, 256).half()
    runs.append("never where limits raise")

@pytest.mark.memory_budget("1 GiB")
def test_device():
    runs.append("device")
    torch.ones(1 << 40)

def test_named_before(attnmem):
    runs.append("before")
    with attnmem.region("first", 1):
        torch.ones(4, device="cuda")

def test_runs():
    assert runs == ["region", "device", "before"]  # other runs leave nothing
"""


def test_a_program_that_names_no_device_exceeds_its_limits_as_before(suite):
    ran = suite.tests(NAMED_NEVER).run("--attnmem-backend=simulated", "--attnmem-explain=off")
    assert ran.outcomes == {"passed": 1, "failed": 3}
    device = "simulated:A100-80GB"
    assert ran.short("test_region").endswith(
        f"BudgetExceeded: first: peak 24.0 KiB exceeds budget 8.0 KiB (3.0x) on {device}"
    )
    assert ran.short("test_device").endswith(
        f"BudgetExceeded: out of memory on {device}: needs 4.0 TiB more at test_suite.py:16;"
        " budget 1.0 GiB"
    )
    assert ran.outcome("test_named_before", "first").startswith("over: peak 16 B exceeds")


def test_a_failure_says_how_often_the_body_ran(suite):
    ran = suite.tests("""
runs = []

def test_it(attnmem):
    runs.append(1)
    with attnmem.region("first", "4 KiB"):
        table = torch.ones(16, 256)
    with attnmem.region("second"):
        table.to("cudart"[:4])
    assert len(runs) == 1
""").run("--attnmem-strict=off", "--attnmem-backend=simulated")
    assert (
        "the body ran three times: 'cuda' is named at test_suite.py:11, after tensors were made"
        " without a device; name the device of each tensor, and it runs once"
    ) in ran.report("test_it")


EXPECTED = """
import unittest

@pytest.mark.memory_budget("1 MiB")
class TestCase(unittest.TestCase):
    @unittest.expectedFailure
    def test_named(self):
        torch.ones(16, 256).half().to("cuda")
        self.fail()

    @unittest.expectedFailure
    def test_over(self):
        torch.ones(16, 256, 256).half().to("cuda")
        self.fail()

    @unittest.expectedFailure
    def test_fine(self):
        torch.ones(16, 256).half().to("cuda")

@pytest.mark.memory_budget("1 MiB")
def test_skipped():
    pytest.skip()

@pytest.mark.memory_budget("1 MiB")
def test_reason():
    pytest.xfail("one day")
"""


def test_a_body_of_an_expected_failure_starts_again(suite):
    ran = suite.tests(EXPECTED).run("--attnmem-backend=simulated")
    assert ran.outcomes == {"xfailed": 3, "skipped": 1, "failed": 1}
    rows = {row["nodeid"].rpartition("::")[2]: row for row in ran.rows}
    assert {name: (row["outcome"], row["peak_bytes"]) for name, row in rows.items()} == {
        "test_named": ("not enforced", 8192),
        "test_over": ("over", 2097152),
        "test_fine": ("not enforced", 8192),
        "test_skipped": ("not enforced", 0),
        "test_reason": ("not enforced", 0),
    }
    assert ran.outcome("TestCase::test_named") == "not enforced: xfailed"
    assert ran.outcome("test_skipped") == "not enforced: skipped"
    assert ran.outcome("test_reason") == "not enforced: xfailed: one day"


#: The device has a name that nobody can read in the code: else a body runs once.
TWICE = """
import unittest

CUDA = "cu" "da "

@pytest.mark.memory_budget("1 MiB")
def test_it(made=[]):
    table = torch.ones(4)
    made.append(1)
    table.to(CUDA.strip())
    assert len(made) == 1

@pytest.mark.memory_budget("1 MiB")
class TestCase(unittest.TestCase):
    made = 0

    def test_it(self):
        table = torch.ones(4)
        TestCase.made += 1
        table.to(CUDA.strip())
        self.assertEqual(TestCase.made, 1)

@pytest.mark.memory_budget("1 MiB")
def test_within():
    torch.ones(4).to(CUDA.strip())

@pytest.mark.memory_budget("1 B")
def test_over():
    torch.ones(4).to(CUDA.strip())
"""


def test_a_failure_says_that_the_body_ran_twice_and_a_verdict_does_not(suite):
    ran = suite.tests(TWICE).run("--attnmem-backend=simulated:H100", "-rA")
    for test, place in (("test_it", 12), ("TestCase.test_it", 22)):
        assert (
            f"the body ran twice: 'cuda' is named at test_suite.py:{place}, after tensors were made"
            " without a device; name the device of each tensor, and it runs once"
        ) in ran.report(test)
        assert any("2 == 1" in line or "2 != 1" in line for line in ran.report(test))
    assert ran.text.count("the body ran twice") == 2
    assert ran.outcome("test_within") == "within"
    assert ran.row("test_over")["outcome"] == "over"

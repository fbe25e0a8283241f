"""Every kind of test is measured and judged in the same way."""

from textwrap import indent

import pytest

#: What stands above the tests, how one is defined, its argument, and how its body begins.
KINDS = {
    "functions": ("", "def", "", ""),
    "methods": ("class TestAttention:", "def", "self", ""),
    "unittest": ("import unittest\nclass TestIt(unittest.TestCase):", "def", "self", ""),
    "isolated asyncio unittest": (
        "import unittest\nclass TestIt(unittest.IsolatedAsyncioTestCase):",
        "async def",
        "self",
        "",
    ),
    "pytest-asyncio": (
        "import asyncio\npytestmark = pytest.mark.asyncio",
        "async def",
        "",
        "await asyncio.sleep(0); ",
    ),
    "pytest-asyncio with a fixture": (
        "import asyncio, pytest_asyncio\npytestmark = pytest.mark.asyncio\nloops = []\n"
        "@pytest_asyncio.fixture(autouse=True)\n"
        "async def loop(): loops.append(asyncio.get_running_loop())",
        "async def",
        "",
        "assert loops.pop() is asyncio.get_running_loop(); ",
    ),
    "anyio": (
        "import anyio\npytestmark = pytest.mark.anyio\n"
        "@pytest.fixture\ndef anyio_backend(): return 'asyncio'",
        "async def",
        "",
        "await anyio.sleep(0); ",
    ),
}
TESTS = """
@pytest.mark.memory_budget(100)
{define} test_within({argument}): {begin}memory.use(100)

@pytest.mark.memory_budget(100)
{define} test_over({argument}): {begin}memory.use(101)

{define} test_unmarked({argument}): memory.use(10**9)
"""


@pytest.mark.parametrize(("head", "define", "argument", "begin"), KINDS.values(), ids=KINDS)
def test_each_kind_of_test_is_held_to_its_budget(scripted, head, define, argument, begin):
    tests = TESTS.format(define=define, argument=argument, begin=begin)
    tests = f"{head}\n{indent(tests, '    ' if argument else '')}"
    ran = scripted.tests(tests).run(has_async=True)
    assert ran.outcomes == {"passed": 2, "failed": 1}
    outcomes = {row["nodeid"].split("::")[-1]: row["outcome"] for row in ran.rows}
    assert outcomes == {"test_within": "within", "test_over": "over"}
    assert [row["peak_bytes"] for row in ran.rows] == [101, 100]
    (over,) = (row["nodeid"].partition("::")[2] for row in ran.rows if row["outcome"] == "over")
    assert ran.short(over) == (
        "FAILED: BudgetExceeded: peak 101 B exceeds budget 100 B by 1 B on scripted"
    )
    assert ran.report(over.replace("::", "."))[0] == (
        "peak 101 B exceeds budget 100 B by 1 B on scripted"
    )
    assert ran.line == (
        "attnmem: 2 budgets, 1 within, 1 over, 0 not enforced (--attnmem-report for the table)"
    )


def test_each_parameter_set_has_a_row_and_a_budget_of_its_own(scripted):
    ran = scripted.tests("""
@pytest.mark.memory_budget("2*N")
@pytest.mark.parametrize("N", [8, 16])
@pytest.mark.parametrize("used", [16, 32])
def test_scores(N, used): memory.use(used)

@pytest.fixture
def M(request): return {"short": 8, "long": 64}[request.param]

@pytest.mark.memory_budget("2*M", exact=True)
@pytest.mark.parametrize("M", ["short", "long"], indirect=True)
def test_made(M): memory.use(2 * M)
""").run()
    found = {row["nodeid"]: (row["outcome"], row["limit_bytes"]) for row in ran.rows}
    assert found == {
        "test_suite.py::test_scores[16-8]": ("within", 16),
        "test_suite.py::test_scores[16-16]": ("within", 32),
        "test_suite.py::test_scores[32-8]": ("over", 16),
        "test_suite.py::test_scores[32-16]": ("within", 32),
        "test_suite.py::test_made[short]": ("within", 16),
        "test_suite.py::test_made[long]": ("within", 128),
    }


def test_what_fixtures_need_is_outside_the_window_and_a_body_may_raise_anything(scripted):
    ran = scripted.tests("""
@pytest.fixture
def weights():
    memory.take(1000)
    yield
    memory.use(5000)
    memory.give(1000)

@pytest.mark.memory_budget(10, exact=True)
def test_it(weights): memory.use(10)

@pytest.mark.memory_budget(10)
def test_stops(): raise StopIteration
""").run()
    assert ran.outcome("test_it") == "within"
    assert ran.short("test_stops") == "FAILED: StopIteration"


def test_a_test_that_warms_up_runs_that_often_before_it_is_measured(scripted):
    ran = scripted.tests("""
import unittest

runs = []

@pytest.mark.memory_budget(10, exact=True, warmup=2)
def test_it(attnmem):
    runs.append(1)
    with attnmem.region("part", 10):
        memory.use(10 if len(runs) == 3 else 1000)

def test_it_ran_once_as_far_as_others_know(): assert len(runs) == 1

class TestIt(unittest.TestCase):
    @pytest.mark.memory_budget(10, exact=True, warmup=1)
    def test_it(self): memory.use(10)

class TestAsync(unittest.IsolatedAsyncioTestCase):
    @pytest.mark.memory_budget(10, exact=True, warmup=1)
    async def test_it(self): memory.use(10)

@pytest.mark.memory_budget(10, warmup=1)
def test_fails(): raise ValueError("no weights")

def test_regions(attnmem):  # measured where it asks for it
    with attnmem.region("first", 10):
        memory.use(10)
    with attnmem.region("second") as second:
        memory.use(20)
    assert second.measurement.peak_bytes == 20
""").run()
    assert ran.outcomes == {"passed": 5, "failed": 1}
    assert ran.outcome("test_regions", "first") == "within"
    assert ran.row("test_regions", "first")["peak_bytes"] == 10
    second = ran.row("test_regions", "second")
    assert (second["outcome"], second["peak_bytes"]) == (None, 20)
    assert ran.row("test_it", "part")["peak_bytes"] == 10
    assert ran.outcome("TestIt::test_it") == ran.outcome("TestAsync::test_it") == "within"
    assert ran.outcome("test_fails") == "not enforced: the test failed: ValueError"
    assert ran.short("test_fails") == "FAILED: ValueError: no weights"
    assert len(ran.rows) == 7


@pytest.mark.parametrize("name", ["attnmem", "qkv"])
def test_a_fixture_can_be_asked_for_while_the_test_runs(suite, name):
    suite.write(f"""
def test_it(request):
    assert request.getfixturevalue("{name}") is not None
""")
    assert suite.run().outcomes == {"passed": 1}


def test_a_doctest_in_a_suite_with_budgets_runs_as_ever(scripted):
    scripted.write('''
"""
>>> 1 + 1
2
"""
import pytest
from scripted import memory

pytestmark = pytest.mark.memory_budget(10)

def test_it(): memory.use(10)
''')
    ran = scripted.run("--doctest-modules")
    assert ran.outcomes == {"passed": 2}
    assert ran.outcome("test_it") == "within"

"""Every kind of test is measured and judged in the same way."""

import pytest

PLAIN = """
import pytest
from scripted import memory

@pytest.mark.memory_budget(100)
def test_within(): memory.use(100)

@pytest.mark.memory_budget(100)
def test_over(): memory.use(101)

def test_unmarked(): memory.use(10**9)
"""

CLASS = """
import pytest
from scripted import memory

class TestAttention:
    @pytest.mark.memory_budget(100)
    def test_within(self): memory.use(100)

    @pytest.mark.memory_budget(100)
    def test_over(self): memory.use(101)

    def test_unmarked(self): memory.use(10**9)
"""

UNITTEST = """
import unittest
import pytest
from scripted import memory

class TestAttention(unittest.TestCase):
    @pytest.mark.memory_budget(100)
    def test_within(self): memory.use(100)

    @pytest.mark.memory_budget(100)
    def test_over(self): memory.use(101)

    def test_unmarked(self): memory.use(10**9)
"""

ISOLATED_ASYNC = """
import unittest
import pytest
from scripted import memory

class TestAttention(unittest.IsolatedAsyncioTestCase):
    @pytest.mark.memory_budget(100)
    async def test_within(self): memory.use(100)

    @pytest.mark.memory_budget(100)
    async def test_over(self): memory.use(101)

    async def test_unmarked(self): memory.use(10**9)
"""

ASYNCIO = """
import asyncio
import pytest
from scripted import memory

pytestmark = pytest.mark.asyncio

@pytest.mark.memory_budget(100)
async def test_within():
    await asyncio.sleep(0)
    memory.use(100)

@pytest.mark.memory_budget(100)
async def test_over():
    await asyncio.sleep(0)
    memory.use(101)

async def test_unmarked(): memory.use(10**9)
"""

ANYIO = """
import anyio
import pytest
from scripted import memory

pytestmark = pytest.mark.anyio

@pytest.fixture
def anyio_backend(): return "asyncio"

@pytest.mark.memory_budget(100)
async def test_within():
    await anyio.sleep(0)
    memory.use(100)

@pytest.mark.memory_budget(100)
async def test_over():
    await anyio.sleep(0)
    memory.use(101)

async def test_unmarked(): memory.use(10**9)
"""

KINDS = {
    "functions": PLAIN,
    "methods": CLASS,
    "unittest": UNITTEST,
    "isolated asyncio unittest": ISOLATED_ASYNC,
    "pytest-asyncio": ASYNCIO,
    "anyio": ANYIO,
}


@pytest.mark.parametrize("text", KINDS.values(), ids=KINDS)
def test_each_kind_of_test_is_held_to_its_budget(scripted, text):
    scripted.write(text)
    ran = scripted.run(has_async=True)
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
    scripted.write("""
import pytest
from scripted import memory

@pytest.mark.memory_budget("2*N")
@pytest.mark.parametrize("N", [8, 16])
@pytest.mark.parametrize("used", [16, 32])
def test_scores(N, used): memory.use(used)
""")
    ran = scripted.run()
    assert {row["nodeid"]: (row["outcome"], row["limit_bytes"]) for row in ran.rows} == {
        "test_suite.py::test_scores[16-8]": ("within", 16),
        "test_suite.py::test_scores[16-16]": ("within", 32),
        "test_suite.py::test_scores[32-8]": ("over", 16),
        "test_suite.py::test_scores[32-16]": ("within", 32),
    }


def test_a_parameter_set_can_have_a_marker_of_its_own(scripted):
    scripted.write("""
import pytest
from scripted import memory

@pytest.mark.parametrize(
    "used", [8, pytest.param(16, marks=pytest.mark.memory_budget(15))]
)
def test_it(used): memory.use(used)
""")
    ran = scripted.run()
    assert [(row["nodeid"], row["outcome"]) for row in ran.rows] == [
        ("test_suite.py::test_it[16]", "over")
    ]


def test_a_parameter_that_a_fixture_makes_a_size_of_is_read_from_the_fixture(scripted):
    scripted.write("""
import pytest
from scripted import memory

@pytest.fixture
def N(request): return {"short": 8, "long": 64}[request.param]

@pytest.mark.memory_budget("2*N", exact=True)
@pytest.mark.parametrize("N", ["short", "long"], indirect=True)
def test_scores(N): memory.use(2 * N)
""")
    ran = scripted.run()
    assert [row["limit_bytes"] for row in ran.rows] == [128, 16]
    assert ran.outcomes == {"passed": 2}


def test_what_fixtures_need_is_outside_the_window(scripted):
    scripted.write("""
import pytest
from scripted import memory

@pytest.fixture
def weights():
    memory.take(1000)
    yield
    memory.use(5000)
    memory.give(1000)

@pytest.mark.memory_budget(10, exact=True)
def test_it(weights): memory.use(10)
""")
    assert scripted.run().outcome("test_it") == "within"


def test_a_test_that_warms_up_runs_that_often_before_it_is_measured(scripted):
    scripted.write("""
import pytest
from scripted import memory

runs = []

@pytest.mark.memory_budget(10, exact=True, warmup=2)
def test_it(attnmem):
    runs.append(1)
    with attnmem.region("part", 10):
        memory.use(10 if len(runs) == 3 else 1000)

def test_it_ran_once_as_far_as_others_know(): assert len(runs) == 1
""")
    ran = scripted.run()
    assert ran.outcomes == {"passed": 2}
    assert ran.row("test_it", "part")["peak_bytes"] == 10
    assert len(ran.rows) == 2


@pytest.mark.parametrize("base", ["TestCase", "IsolatedAsyncioTestCase"])
def test_a_unittest_can_warm_up(scripted, base):
    scripted.write(f"""
import unittest
import pytest
from scripted import memory

class TestIt(unittest.{base}):
    @pytest.mark.memory_budget(10, exact=True, warmup=1)
    {"async " if base.startswith("Iso") else ""}def test_it(self): memory.use(10)
""")
    ran = scripted.run()
    assert ran.outcomes == {"passed": 1}
    assert ran.outcome("TestIt::test_it") == "within"


def test_a_warm_up_that_fails_is_the_failure(scripted):
    scripted.write("""
import pytest

@pytest.mark.memory_budget(10, warmup=1)
def test_it(): raise ValueError("no weights")
""")
    ran = scripted.run()
    assert ran.outcomes == {"failed": 1}
    assert ran.outcome("test_it") == "not enforced: the test failed: ValueError"
    assert ran.short("test_it") == "FAILED: ValueError: no weights"


def test_a_test_that_only_uses_a_fixture_is_measured_where_it_asks_for_it(scripted):
    scripted.write("""
from scripted import memory

def test_regions(attnmem):
    with attnmem.region("first", 10):
        memory.use(10)
    with attnmem.region("second") as second:
        memory.use(20)
    assert second.measurement.peak_bytes == 20
""")
    ran = scripted.run()
    assert [(row["region"], row["outcome"], row["peak_bytes"]) for row in ran.rows] == [
        ("first", "within", 10),
        ("second", None, 20),
    ]


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


def test_a_body_that_raises_stop_iteration_fails_with_it(scripted):
    scripted.write("""
import pytest

@pytest.mark.memory_budget(10)
def test_it(): raise StopIteration
""")
    ran = scripted.run()
    assert ran.outcomes == {"failed": 1}
    assert ran.short("test_it") == "FAILED: StopIteration"

"""The places of markers, and the marker that counts if there are several."""

import pytest


def test_a_marker_on_a_class_holds_each_of_its_tests(scripted):
    scripted.write("""
import pytest
from scripted import memory

@pytest.mark.memory_budget(100)
class TestIt:
    def test_within(self): memory.use(100)
    def test_over(self): memory.use(101)

def test_elsewhere(): memory.use(101)
""")
    ran = scripted.run()
    assert ran.outcomes == {"passed": 2, "failed": 1}
    assert ran.report("TestIt.test_over")[1] == "  budget    100 B   test_suite.py:5"


def test_a_marker_on_a_module_holds_each_of_its_tests(scripted):
    scripted.write("""
import pytest
from scripted import memory

def helper(): memory.use(101)

pytestmark = [pytest.mark.memory_budget(100)]

class TestIt:
    def test_over(self): helper()
""")
    ran = scripted.run()
    assert ran.outcomes == {"failed": 1}
    assert ran.report("TestIt.test_over")[1] == "  budget    100 B   test_suite.py:7"


def test_of_one_metric_the_closest_marker_wins(scripted):
    scripted.write("""
import pytest
from scripted import memory

pytestmark = pytest.mark.memory_budget(1)

def test_module(): memory.use(1)

@pytest.mark.memory_budget(2)
class TestIt:
    def test_class(self): memory.use(2)

    @pytest.mark.memory_budget(3)
    def test_function(self): memory.use(3)
""")
    ran = scripted.run()
    assert ran.outcomes == {"passed": 3}
    assert [row["limit_bytes"] for row in ran.rows] == [2, 3, 1]


def test_markers_of_several_metrics_are_all_checked(scripted):
    scripted.write("""
import pytest
from scripted import memory

pytestmark = pytest.mark.memory_budget(7, metric="retained")

@pytest.mark.memory_budget(100, metric="allocated")
class TestIt:
    @pytest.mark.memory_budget(100)
    @pytest.mark.memory_budget(
        5,
        metric="retained",
    )
    def test_it(self):
        memory.use(101)
        memory.take(6)
""")
    ran = scripted.run()
    assert ran.outcomes == {"failed": 1}
    assert ran.row("TestIt::test_it")["limit_bytes"] == 100
    assert ran.row("TestIt::test_it", metric="allocated")["limit_bytes"] == 100
    assert ran.row("TestIt::test_it", metric="retained")["limit_bytes"] == 5
    assert ran.report("TestIt.test_it")[::5] == [
        "retained 6 B exceeds budget 5 B (1.2x) on scripted",
        "peak 101 B exceeds budget 100 B by 1 B on scripted",
        "allocated 101 B exceeds budget 100 B by 1 B on scripted",
    ]
    assert ran.report("TestIt.test_it")[1::5] == [
        "  budget    5 B   test_suite.py:10",
        "  budget    100 B   test_suite.py:9",
        "  budget    100 B   test_suite.py:7",
    ]
    assert ran.line == (
        "attnmem: 3 budgets, 0 within, 3 over, 0 not enforced (--attnmem-report for the table)"
    )


def test_a_metric_that_the_backend_does_not_measure_is_not_enforced(scripted):
    scripted.write("""
import pytest
from scripted import memory

@pytest.mark.memory_budget(10, metric="reserved")
def test_it(): memory.use(1)
""")
    ran = scripted.run()
    assert ran.outcome("test_it", metric="reserved") == (
        "not enforced: reserved is not measured on scripted"
    )


@pytest.mark.parametrize("marker", ["memory_budget", "memory_budget()"])
def test_a_bare_marker_without_a_baseline_measures_and_enforces_nothing(scripted, marker):
    scripted.write(f"""
import pytest
from scripted import memory

@pytest.mark.{marker}
def test_it(): memory.use(123)
""")
    ran = scripted.run()
    assert ran.outcomes == {"passed": 1}
    assert (
        ran.outcome("test_it") == "not enforced: no baseline entry; --attnmem-update new writes one"
    )
    assert ran.row("test_it")["peak_bytes"] == 123


def test_a_limit_may_be_a_callable_of_the_shape(scripted):
    scripted.write("""
import pytest
from scripted import memory

def scores(shape): return shape.B * shape.N ** 2

@pytest.mark.parametrize("batch_size, seq_len", [(2, 8)])
@pytest.mark.memory_budget(limit=scores, exact=True)
def test_it(batch_size, seq_len): memory.use(128)
""")
    ran = scripted.run()
    assert ran.outcome("test_it[2-8]") == "within"
    assert ran.row("test_it[2-8]")["budget"] == "scores"
    assert ran.row("test_it[2-8]")["shape"] == {"B": 2, "N": 8, "M": 8}


def test_a_limit_may_be_a_dict_by_device(scripted):
    scripted.write("""
import pytest
from scripted import memory

@pytest.mark.memory_budget({"cuda": 1, "scripted": "2*lanes", "default": 3}, exact=True)
def test_here(): memory.use(16)

@pytest.mark.memory_budget({"cuda": 1, "default": 3}, exact=True)
def test_default(): memory.use(3)

@pytest.mark.memory_budget({"cuda": 1, "sm90": 2})
def test_elsewhere(): memory.use(1)
""")
    ran = scripted.run()
    assert ran.outcomes == {"passed": 3}
    assert ran.row("test_here")["budget"] == "scripted: 2*lanes"
    assert ran.row("test_default")["budget"] == "default: 3 B"
    assert ran.outcome("test_elsewhere") == (
        "not enforced: no limit for scripted, only for cuda, sm90"
    )


def test_equality_passes_and_exact_fails_on_less(scripted):
    scripted.write("""
import pytest
from scripted import memory

@pytest.mark.memory_budget(100, exact=True)
def test_same(): memory.use(100)

@pytest.mark.memory_budget(100, exact=True)
def test_less(): memory.use(99)

@pytest.mark.memory_budget(100, exact=True, tolerance="1%")
def test_tolerated(): memory.use(99)
""")
    ran = scripted.run()
    assert ran.outcomes == {"passed": 2, "failed": 1}
    assert ran.short("test_less") == (
        "FAILED: BudgetExceeded: peak 99 B is under the exact budget 100 B by 1 B on scripted:"
        " write the improvement down"
    )


def test_the_budget_of_attention_is_exact_to_the_byte(suite):
    suite.write("""
import pytest

FORWARD = "2*B*H*N*N*itemsize + B*H*N*d*itemsize"

@pytest.mark.memory_budget(FORWARD, exact=True)
def test_exact(qkv): attention(*qkv(2, 4, 64, 8))

@pytest.mark.memory_budget(f"{FORWARD} - 1")
def test_less(qkv): attention(*qkv(2, 4, 64, 8))

@pytest.mark.memory_budget(f"{FORWARD} + 1", exact=True)
def test_more(qkv): attention(*qkv(2, 4, 64, 8))

def attention(q, k, v):
    scores = q @ k.mT
    return scores.softmax(-1) @ v
""")
    ran = suite.run()
    assert ran.outcomes == {"passed": 1, "failed": 2}
    assert ran.short("test_less") == (
        "FAILED: BudgetExceeded: peak 278,528 B exceeds budget 278,527 B by 1 B on cpu"
    )
    assert ran.short("test_more") == (
        "FAILED: BudgetExceeded: peak 278528 B is under the exact budget 278529 B by 1 B on cpu:"
        " write the improvement down"
    )


def test_a_marker_that_a_hook_adds_counts_and_is_said_to_be_at_the_test(scripted):
    scripted.write(
        """
import pytest
from scripted import pytest_attnmem_register_backends

def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.memory_budget(100))
""",
        "conftest.py",
    )
    scripted.write("""
from scripted import memory

def test_it(): memory.use(101)
""")
    ran = scripted.run()
    assert ran.outcomes == {"failed": 1}
    assert ran.report("test_it")[1] == "  budget    100 B   test_suite.py:4"


def test_a_marker_that_a_test_inherits_is_said_to_be_where_it_is_written(scripted):
    scripted.write(
        """
import pytest
from scripted import memory

class Base:
    @pytest.mark.memory_budget(100)
    def test_it(self): memory.use(101)
""",
        "shared.py",
    )
    scripted.write("""
from shared import Base

class TestIt(Base): pass
""")
    ran = scripted.run()
    assert ran.report("TestIt.test_it")[1] == "  budget    100 B   shared.py:6"


def test_the_marker_is_known_to_pytest(scripted):
    scripted.write("""
import pytest
from scripted import memory

@pytest.mark.memory_budget(100)
def test_it(): memory.use(100)
""")
    assert scripted.run("--strict-markers").outcomes == {"passed": 1}


def test_the_list_of_markers_explains_it(suite):
    ran = suite.run("--markers")
    assert (
        "@pytest.mark.memory_budget(limit=None, *, metric='peak', tolerance=0, exact=False,"
        " backend=None, device=None, warmup=0, ranks=None, oom=None, compiled=None, fixed=(),"
        " **symbols):"
        " hold the test's peak memory to limit: a size, a formula, a growth contract, a model, a"
        " callable or a dict.\n"
    ) in ran.text


def test_the_list_of_fixtures_explains_them(suite):
    ran = suite.run("--fixtures")
    ran.result.stdout.fnmatch_lines(
        [
            "attnmem -- *",
            "    Measure parts of a test: measure, region, check, compare, growth, derive, model.",
            "qkv -- *",
            "    Make inputs that no budget counts: qkv(B, H, N, d, *, Hkv, M, dv, dtype, …) *",
        ],
    )

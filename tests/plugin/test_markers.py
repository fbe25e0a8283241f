"""The places of markers, and the marker that counts if there are several."""


def test_the_closest_marker_of_a_metric_holds(scripted):
    ran = scripted.tests("""
def helper(): memory.use(2)

pytestmark = [pytest.mark.memory_budget(1)]

def test_module(): helper()

@pytest.mark.memory_budget(2)
class TestIt:
    def test_class(self): memory.use(2)
    def test_over(self): memory.use(3)

    @pytest.mark.memory_budget(3)
    def test_function(self): memory.use(3)
""").run("--strict-markers")
    assert ran.outcomes == {"passed": 2, "failed": 2}
    assert [row["limit_bytes"] for row in ran.rows] == [2, 3, 2, 1]
    assert ran.report("test_module")[1] == "  budget    1 B   test_suite.py:7"
    assert ran.report("TestIt.test_over")[1] == "  budget    2 B   test_suite.py:11"


def test_markers_of_several_metrics_are_all_checked(scripted):
    ran = scripted.tests("""
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
""").run()
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


def test_equality_passes_exact_fails_on_less_and_a_limit_may_be_a_callable_or_a_dict(scripted):
    ran = scripted.tests("""
budget = pytest.mark.memory_budget

@budget(100, exact=True)
def test_same(): memory.use(100)

@budget(100, exact=True)
def test_less(): memory.use(99)

@budget(100, exact=True, tolerance="1%")
def test_tolerated(): memory.use(99)

@pytest.mark.parametrize("used", [8, pytest.param(16, marks=budget(15))])
def test_of_one_parameter(used): memory.use(used)

@budget
def test_bare(): memory.use(123)

@budget()
def test_called(): memory.use(123)

def scores(shape): return shape.B * shape.N ** 2

@pytest.mark.parametrize("batch_size, seq_len", [(2, 8)])
@budget(limit=scores, exact=True)
def test_it(batch_size, seq_len): memory.use(128)

@budget({"cuda": 1, "scripted": "2*lanes", "default": 3}, exact=True)
def test_here(): memory.use(16)

@budget({"cuda": 1, "default": 3}, exact=True)
def test_default(): memory.use(3)

@budget({"cuda": 1, "sm90": 2})
def test_elsewhere(): memory.use(1)

@budget(10, metric="reserved")
def test_unmeasured(): memory.use(1)
""").run("--attnmem-strict=off")
    assert ran.outcomes == {"passed": 10, "failed": 2}
    assert ran.short("test_less") == (
        "FAILED: BudgetExceeded: peak 99 B is under the exact budget 100 B by 1 B on scripted:"
        " write the improvement down, 99"
    )
    over = {row["nodeid"].partition("::")[2] for row in ran.rows if row["outcome"] == "over"}
    assert over == {"test_less", "test_of_one_parameter[16]"}
    for test in ("test_bare", "test_called"):
        assert ran.row(test)["peak_bytes"] == 123
        assert ran.outcome(test) == (
            "not enforced: no baseline entry; --attnmem-update new writes one"
        )
    budgets = {
        "test_it[2-8]": "scores",
        "test_here": "scripted: 2*lanes",
        "test_default": "default: 3 B",
    }
    for test, budget in budgets.items():
        assert (ran.outcome(test), ran.row(test)["budget"]) == ("within", budget)
    assert ran.row("test_it[2-8]")["shape"] == {"B": 2, "N": 8, "M": 8}
    for test, metric, reason in (
        ("test_elsewhere", "peak", "no limit for scripted, only for cuda, sm90"),
        ("test_unmeasured", "reserved", "reserved is not measured on scripted"),
    ):
        assert ran.outcome(test, metric=metric) == f"not enforced: {reason}"


def test_the_budget_of_attention_is_exact_to_the_byte(suite):
    ran = suite.tests("""
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
""").run()
    assert ran.outcomes == {"passed": 1, "failed": 2}
    assert ran.short("test_less") == (
        "FAILED: BudgetExceeded: peak 278,528 B exceeds budget 278,527 B by 1 B on cpu"
    )
    assert ran.short("test_more") == (
        "FAILED: BudgetExceeded: peak 278,528 B is under the exact budget 278,529 B by 1 B on cpu:"
        " write the improvement down, 278528"
    )


def test_a_marker_that_a_hook_adds_or_a_test_inherits_has_its_place(scripted):
    scripted.write(
        """
import pytest
from scripted import pytest_attnmem_register_backends

def pytest_collection_modifyitems(items):
    for item in items:
        if item.cls is None: item.add_marker(pytest.mark.memory_budget(100))
""",
        "conftest.py",
    )
    base = """
class Base:
    @pytest.mark.memory_budget(100)
    def test_it(self): memory.use(101)
"""
    scripted.write(scripted.head + base, "shared.py")
    ran = scripted.tests("""
from shared import Base

def test_it(): memory.use(101)

class TestIt(Base): pass
""").run()
    assert ran.outcomes == {"failed": 2}
    assert ran.report("test_it")[1] == "  budget    100 B   test_suite.py:7"
    assert ran.report("TestIt.test_it")[1] == "  budget    100 B   shared.py:6"


def test_the_lists_of_markers_and_of_fixtures_explain_them(suite):
    assert (
        "@pytest.mark.memory_budget(limit=None, *, metric='peak', tolerance=0, exact=False,"
        " backend=None, device=None, warmup=0, ranks=None, compiled=None, fixed=(),"
        " **symbols):"
        " hold the test's peak memory to limit: a size, a formula, a growth contract, a model, a"
        " callable or a dict.\n"
    ) in suite.run("--markers").text
    suite.run("--fixtures").result.stdout.fnmatch_lines(
        [
            "attnmem -- *",
            "    Measure parts of a test: measure, region, check, compare, growth, derive, model.",
            "qkv -- *",
            "    Make inputs that no budget counts: qkv(B, H, N, d, *, Hkv, M, dv, dtype, …) *",
        ],
    )

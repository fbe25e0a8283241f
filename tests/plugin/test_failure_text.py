"""The text of an exceeded budget: the verdict, the formula, its line and the held tensors."""

import pytest

#: Textbook attention, on the same lines in every suite.
MODEL = """
import torch

def attention(q, k, v):
    scores = q @ k.transpose(-1, -2)
    return scores.softmax(-1) @ v
"""

#: Scores, weights and the result, of q, k and v [2, 4, 64, 8] in float32.
PEAK = 2 * 2 * 4 * 64 * 64 * 4 + 2 * 4 * 64 * 8 * 4
HELD = [
    "  held at the peak (3 tensors):",
    "    128.0 KiB  [8, 64, 64] float32     bmm      model.py:5  in attention  ← B·H·N·N",
    "    128.0 KiB  [2, 4, 64, 64] float32  softmax  model.py:6  in attention  ← B·H·N·N",
    "     16.0 KiB  [8, 64, 8] float32      bmm      model.py:6  in attention  ← B·H·N·d",
    "  attnmem explain scores",
]
#: The same without runs at other sizes, which prove the shapes.
PLAIN = [HELD[0], *(line.partition("  ←")[0] for line in HELD[1:])]
VERDICT = "peak 272.0 KiB exceeds budget 32.0 KiB (8.5x) on cpu"
FORMULA = "2*B*H*N*d*itemsize   B=2 H=4 N=64 d=8 itemsize=4"


@pytest.fixture
def attention(suite):
    suite.write(MODEL, "model.py")
    suite.head = "\nimport pytest\nfrom model import attention\n"
    return suite


def test_a_function(attention):
    ran = attention.tests("""
@pytest.mark.memory_budget("2*B*H*N*d*itemsize")
def test_it(qkv): attention(*qkv(2, 4, 64, 8))
""").run()
    assert ran.report("test_it") == [VERDICT, f"  budget    {FORMULA}   test_suite.py:5", *HELD]
    assert ran.short("test_it") == f"FAILED: BudgetExceeded: {VERDICT}"
    row = ran.row("test_it")
    assert row["peak_bytes"] == PEAK
    assert row["held"][1] == {
        "bytes": 131072,
        "shape": [2, 4, 64, 64],
        "dtype": "float32",
        "op": "softmax",
        "where": "model.py:6",
        "function": "attention",
        "dims": ["B", "H", "N", "N"],
    }


def test_a_unittest(attention):
    ran = attention.tests("""
import unittest
import pytest_attnmem

@pytest.mark.memory_budget("2*B*H*N*d*itemsize", B=2, H=4, N=64, d=8, itemsize=4)
class TestIt(unittest.TestCase):
    def test_it(self): attention(*pytest_attnmem.qkv(2, 4, 64, 8))
""").run()
    budget = f"  budget    {FORMULA}   test_suite.py:8"
    assert ran.report("TestIt.test_it") == [VERDICT, budget, *PLAIN]


@pytest.mark.parametrize("library", ["asyncio", "anyio"])
def test_an_async_test(attention, library):
    ran = attention.tests(f"""
@pytest.fixture
def anyio_backend(): return "asyncio"

@pytest.mark.{library}
@pytest.mark.memory_budget("2*B*H*N*d*itemsize")
async def test_it(qkv): attention(*qkv(2, 4, 64, 8))
""").run(has_async=True)
    assert ran.report("test_it") == [VERDICT, f"  budget    {FORMULA}   test_suite.py:9", *HELD]


def test_a_region_fails_where_it_is(attention):
    ran = attention.tests("""
def test_it(attnmem, qkv):
    q, k, v = qkv(2, 4, 64, 8)
    attention(q, k, v)
    with attnmem.region("second", "2*B*H*N*d*itemsize"):
        attention(q, k, v)

@pytest.mark.memory_budget("1 MiB")
def test_budgeted(attnmem, qkv):
    q, k, v = qkv(2, 4, 64, 8)
    with attnmem.region("inner", "2*B*H*N*d*itemsize"):
        attention(q, k, v)
""").run()
    lines = ran.report("test_it")
    assert [line[8:] for line in lines if line.startswith("E ")] == [
        f"pytest_attnmem.BudgetExceeded: second: {VERDICT}",
        f"  budget    {FORMULA}   test_suite.py:8",
        *HELD,
    ]
    assert lines[-1] == "test_suite.py:8: BudgetExceeded"
    for test, name in (("test_it", "second"), ("test_budgeted", "inner")):
        assert ran.short(test) == f"FAILED: pytest_attnmem.BudgetExceeded: {name}: {VERDICT}"
    assert ran.outcome("test_budgeted") == "not enforced: the test failed: BudgetExceeded"
    assert ran.outcome("test_budgeted", "inner") == f"over: {VERDICT}"
    held = ran.row("test_budgeted", "inner")["held"]
    assert [one["op"] for one in held] == ["bmm", "softmax", "bmm"]


def test_scratch_inside_kernels_is_told_apart(suite):
    ran = suite.tests("""
@pytest.mark.memory_budget(0)
def test_it(qkv):
    q, k, v = qkv(1, 1, 64, 8)
    q.sum()
""").run()
    held = ran.row("test_it")["peak_bytes"] - 4
    lines = ran.report("test_it")
    assert lines[2:4] == [
        "  held at the peak (1 tensor):",
        "    4 B  [] float32  sum  test_suite.py:7  in test_it",
    ]
    unseen = f"  and {held} B that the second run did not account for"
    told = [f"{unseen} (scratch inside kernels, most likely)"] if held else []
    assert lines[4:] == [*told, "  attnmem explain temporaries"]


def test_a_budget_of_a_failing_test_is_explained_below_its_own_traceback(attention):
    ran = attention.tests("""
@pytest.mark.memory_budget("2*B*H*N*d*itemsize")
def test_it(qkv):
    attention(*qkv(2, 4, 64, 8))
    raise ValueError("wrong")
""").run()
    lines = ran.report("test_it")
    assert lines[-7] == VERDICT
    assert lines[-5:] == PLAIN


def test_a_second_run_that_ends_otherwise_changes_no_outcome(suite):
    ran = suite.tests("""
import unittest

ENDS, refs, runs = [pytest.skip, pytest.fail, pytest.xfail], {}, []

@pytest.mark.memory_budget("1 KiB")
@pytest.mark.parametrize("end", ENDS, ids=["skip", "fail", "xfail"])
def test_it(end):
    torch.ones(4096)
    if end in refs: end("no more")
    refs[end] = 1

@pytest.mark.memory_budget("1 KiB")
def test_asserts():
    torch.ones(4096)
    assert not runs, "the server is running"
    runs.append(1)

class TestIt(unittest.TestCase):
    @pytest.mark.memory_budget("1 KiB")
    def test_it(self):
        torch.ones(4096)
        refs["unittest"] = refs.get("unittest", 0) + 1
        self.assertEqual(refs["unittest"], 1)

def test_region(attnmem):
    if "region" not in refs:
        refs["region"] = 1
        with attnmem.region("first", "1 KiB"): torch.ones(4096)
""").run()
    over = "peak 16.0 KiB exceeds budget 1.0 KiB (16.0x) on cpu"
    assert ran.outcomes == {"failed": 6}
    assert {row["outcome"] for row in ran.rows} == {"over"}
    for title, raised in {
        "test_it[skip]": "raised Skipped: no more",
        "test_it[fail]": "raised Failed: no more",
        "test_it[xfail]": "raised XFailed: no more",
        "TestIt.test_it": "raised AssertionError: 2 != 1",
    }.items():
        unknown = f"  held tensors are unknown: the second run {raised}"
        assert ran.report(title)[-2] == unknown
    assert ran.report("test_asserts") == [
        over,
        "  budget    1 KiB   test_suite.py:15",
        "  held tensors are unknown: the second run raised AssertionError: the server is running"
        " assert not [1]",
        "  attnmem explain parts",
    ]
    assert ran.outcome("test_asserts") == f"over: {over}"
    assert ran.report("test_region")[-4] == (
        "E             held tensors are unknown: the second run did not reach region 'first'"
    )


def test_a_unittest_that_runs_twice_sets_up_and_tears_down_twice(suite):
    ran = suite.tests("""
import unittest, weakref

steps, refs = [], []

def log(step):
    steps.append(step)
    with open("steps.txt", "a") as file:  # no run takes it back
        print(step, file=file)

class TestIt(unittest.TestCase):
    def setUp(self): log("set up")
    def tearDown(self): log("tear down")

    @pytest.mark.memory_budget("1 KiB")
    def test_it(self):
        x = torch.ones(4096)
        refs.append(weakref.ref(x))

class TestAsync(unittest.IsolatedAsyncioTestCase):
    @pytest.mark.memory_budget("1 KiB")
    async def test_it(self): torch.ones(4096)

def test_after():
    assert steps == ["set up", "tear down"]
    assert [ref() for ref in refs] == [None]
""").run()
    assert (suite.path / "steps.txt").read_text().splitlines() == ["set up", "tear down"] * 3
    assert ran.outcomes == {"failed": 2, "passed": 1}
    for test, line in (("TestIt", 19), ("TestAsync", 24)):
        assert ran.report(f"{test}.test_it")[2:] == [
            "  held at the peak (1 tensor):",
            f"    16.0 KiB  [4096] float32  ones  test_suite.py:{line}  in test_it",
            "  attnmem explain temporaries",
        ]


def test_without_explanations_nothing_runs_twice(suite):
    ran = suite.tests("""
runs = []

@pytest.mark.memory_budget("1 KiB")
def test_over():
    runs.append(1)
    torch.ones(4096)

def test_region(attnmem):
    runs.append(1)
    with attnmem.region("part", "1 KiB"):
        torch.ones(4096)

def test_runs(): assert len(runs) == 2
""").run("--attnmem-explain=off")
    assert ran.outcomes == {"failed": 2, "passed": 1}
    assert ran.report("test_over") == [
        "peak 16.0 KiB exceeds budget 1.0 KiB (16.0x) on cpu",
        "  budget    1 KiB   test_suite.py:6",
        "  attnmem explain parts",
    ]
    assert (ran.row("test_over")["held"], ran.row("test_over")["timeline"]) == ([], None)


def test_the_tensors_are_those_of_a_run_that_finds_its_fixtures_as_the_first_run_did(suite):
    ran = suite.tests("""
class Cache:
    def __init__(self):
        self.k = torch.zeros(64, 64)

    def append(self, k):
        self.k = torch.cat([self.k, k])

@pytest.fixture
def cache():
    return Cache()

@pytest.mark.memory_budget("8 KiB")
def test_step(cache):
    cache.append(torch.zeros(1, 64))
""").run("--attnmem-backend=cpu")
    (row,) = ran.rows
    assert [held["shape"] for held in row["held"]] == [[65, 64], [1, 64]]
    assert row["peak_bytes"] == sum(held["bytes"] for held in row["held"])

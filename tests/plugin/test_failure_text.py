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
    return suite


def test_a_function(attention):
    attention.write("""
import pytest
from model import attention

@pytest.mark.memory_budget("2*B*H*N*d*itemsize")
def test_it(qkv): attention(*qkv(2, 4, 64, 8))
""")
    ran = attention.run()
    assert ran.report("test_it") == [VERDICT, f"  budget    {FORMULA}   test_suite.py:5", *HELD]
    assert ran.short("test_it") == f"FAILED: BudgetExceeded: {VERDICT}"


def test_a_unittest(attention):
    attention.write("""
import unittest
import pytest
import pytest_attnmem
from model import attention

@pytest.mark.memory_budget("2*B*H*N*d*itemsize", B=2, H=4, N=64, d=8, itemsize=4)
class TestIt(unittest.TestCase):
    def test_it(self): attention(*pytest_attnmem.qkv(2, 4, 64, 8))
""")
    ran = attention.run()
    assert ran.report("TestIt.test_it") == [
        VERDICT,
        f"  budget    {FORMULA}   test_suite.py:7",
        *PLAIN,
    ]


@pytest.mark.parametrize("library", ["asyncio", "anyio"])
def test_an_async_test(attention, library):
    attention.write(f"""
import pytest
from model import attention

@pytest.fixture
def anyio_backend(): return "asyncio"

@pytest.mark.{library}
@pytest.mark.memory_budget("2*B*H*N*d*itemsize")
async def test_it(qkv): attention(*qkv(2, 4, 64, 8))
""")
    ran = attention.run(has_async=True)
    assert ran.report("test_it") == [VERDICT, f"  budget    {FORMULA}   test_suite.py:9", *HELD]


def test_a_region_fails_where_it_is(attention):
    attention.write("""
from model import attention

def test_it(attnmem, qkv):
    q, k, v = qkv(2, 4, 64, 8)
    attention(q, k, v)
    with attnmem.region("second", "2*B*H*N*d*itemsize"):
        attention(q, k, v)
""")
    ran = attention.run()
    lines = ran.report("test_it")
    assert [line[8:] for line in lines if line.startswith("E ")] == [
        f"pytest_attnmem.BudgetExceeded: second: {VERDICT}",
        f"  budget    {FORMULA}   test_suite.py:7",
        *HELD,
    ]
    assert lines[-1] == "test_suite.py:7: BudgetExceeded"
    assert ran.short("test_it") == f"FAILED: pytest_attnmem.BudgetExceeded: second: {VERDICT}"


def test_a_region_of_a_unittest_and_of_a_budgeted_test(attention):
    attention.write("""
import pytest
from model import attention

@pytest.mark.memory_budget("1 MiB")
def test_it(attnmem, qkv):
    q, k, v = qkv(2, 4, 64, 8)
    with attnmem.region("inner", "2*B*H*N*d*itemsize"):
        attention(q, k, v)
""")
    ran = attention.run()
    assert ran.short("test_it") == f"FAILED: pytest_attnmem.BudgetExceeded: inner: {VERDICT}"
    assert ran.outcome("test_it") == "not enforced: the test failed: BudgetExceeded"
    assert ran.outcome("test_it", "inner") == f"over: {VERDICT}"
    assert [held["op"] for held in ran.row("test_it", "inner")["held"]] == ["bmm", "softmax", "bmm"]


def test_the_rows_in_the_file_know_what_was_held(attention):
    attention.write("""
import pytest
from model import attention

@pytest.mark.memory_budget("2*B*H*N*d*itemsize")
def test_it(qkv): attention(*qkv(2, 4, 64, 8))
""")
    row = attention.run().row("test_it")
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


def test_scratch_inside_kernels_is_told_apart(suite):
    suite.write("""
import pytest
import torch

@pytest.mark.memory_budget(0)
def test_it(qkv):
    q, k, v = qkv(1, 1, 64, 8)
    q.sum()
""")
    ran = suite.run()
    held = ran.row("test_it")["peak_bytes"] - 4
    lines = ran.report("test_it")
    assert lines[2:4] == [
        "  held at the peak (1 tensor):",
        "    4 B  [] float32  sum  test_suite.py:8  in test_it",
    ]
    unseen = f"  and {held} B that the second run did not account for"
    told = [f"{unseen} (scratch inside kernels, most likely)"] if held else []
    assert lines[4:] == [*told, "  attnmem explain temporaries"]


def test_a_budget_of_a_failing_test_is_explained_below_its_own_traceback(attention):
    attention.write("""
import pytest
from model import attention

@pytest.mark.memory_budget("2*B*H*N*d*itemsize")
def test_it(qkv):
    attention(*qkv(2, 4, 64, 8))
    raise ValueError("wrong")
""")
    lines = attention.run().report("test_it")
    assert lines[-7] == VERDICT
    assert lines[-5:] == PLAIN


def test_a_body_that_cannot_run_twice_says_so_and_stays_over(suite):
    suite.write("""
import pytest
import torch

runs = []

@pytest.mark.memory_budget("1 KiB")
def test_it():
    torch.ones(4096)
    assert not runs, "the server is running"
    runs.append(1)
""")
    ran = suite.run()
    assert ran.outcome("test_it") == "over: peak 16.0 KiB exceeds budget 1.0 KiB (16.0x) on cpu"
    assert ran.report("test_it") == [
        "peak 16.0 KiB exceeds budget 1.0 KiB (16.0x) on cpu",
        "  budget    1 KiB   test_suite.py:7",
        "  held tensors are unknown: the second run raised AssertionError: the server is running"
        " assert not [1]",
        "  attnmem explain parts",
    ]


@pytest.mark.parametrize(
    ("raised", "shown"),
    [
        ("pytest.skip('no more')", "Skipped: no more"),
        ("pytest.fail('no more')", "Failed: no more"),
        ("pytest.xfail('no more')", "XFailed: no more"),
    ],
    ids=["skip", "fail", "xfail"],
)
def test_a_second_run_that_ends_otherwise_changes_no_outcome(suite, raised, shown):
    suite.write(f"""
import pytest
import torch

runs = []

@pytest.mark.memory_budget("1 KiB")
def test_it():
    torch.ones(4096)
    if runs: {raised}
    runs.append(1)
""")
    ran = suite.run()
    assert ran.outcomes == {"failed": 1}
    assert ran.report("test_it")[-2] == (
        f"  held tensors are unknown: the second run raised {shown}"
    )


def test_a_region_that_the_second_run_does_not_reach_says_so(suite):
    suite.write("""
import torch

runs = []

def test_it(attnmem):
    runs.append(1)
    if len(runs) == 1:
        with attnmem.region("first", "1 KiB"):
            torch.ones(4096)
""")
    ran = suite.run()
    assert ran.report("test_it")[-4] == (
        "E             held tensors are unknown: the second run did not reach region 'first'"
    )


def test_a_unittest_that_runs_twice_sets_up_and_tears_down_twice(suite):
    suite.write("""
import unittest
import pytest
import torch

steps = []

def log(step):
    steps.append(step)
    with open("steps.txt", "a") as file:  # no run takes it back
        print(step, file=file)

class TestIt(unittest.TestCase):
    def setUp(self): log("set up")
    def tearDown(self): log("tear down")

    @pytest.mark.memory_budget("1 KiB")
    def test_it(self): torch.ones(4096)

def test_steps(): assert steps == ["set up", "tear down"]
""")
    ran = suite.run()
    assert (suite.path / "steps.txt").read_text().splitlines() == ["set up", "tear down"] * 3
    assert ran.outcomes == {"failed": 1, "passed": 1}
    assert ran.report("TestIt.test_it")[2:] == [
        "  held at the peak (1 tensor):",
        "    16.0 KiB  [4096] float32  ones  test_suite.py:18  in test_it",
        "  attnmem explain temporaries",
    ]


def test_an_isolated_asyncio_unittest_can_run_twice(suite):
    suite.write("""
import unittest
import pytest
import torch

class TestIt(unittest.IsolatedAsyncioTestCase):
    @pytest.mark.memory_budget("1 KiB")
    async def test_it(self): torch.ones(4096)
""")
    assert suite.run().report("TestIt.test_it")[2:] == [
        "  held at the peak (1 tensor):",
        "    16.0 KiB  [4096] float32  ones  test_suite.py:8  in test_it",
        "  attnmem explain temporaries",
    ]


def test_nothing_of_the_test_is_kept_alive(suite):
    suite.write("""
import weakref
import pytest
import torch

refs = []

@pytest.mark.memory_budget("1 KiB")
def test_over():
    x = torch.ones(4096)
    refs.append(weakref.ref(x))

def test_after(): assert [ref() for ref in refs] == [None]
""")
    ran = suite.run()
    assert ran.outcomes == {"failed": 1, "passed": 1}


def test_without_explanations_nothing_runs_twice(suite):
    suite.write("""
import pytest
import torch

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
""")
    ran = suite.run("--attnmem-explain=off")
    assert ran.outcomes == {"failed": 2, "passed": 1}
    assert ran.report("test_over") == [
        "peak 16.0 KiB exceeds budget 1.0 KiB (16.0x) on cpu",
        "  budget    1 KiB   test_suite.py:7",
        "  attnmem explain parts",
    ]
    assert ran.row("test_over")["held"] == []

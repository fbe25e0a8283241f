"""A growth contract that is asserted in a test is a row, and fails the test that catches it."""

import pytest

HEAD = """
import contextlib
import pytest
import pytest_attnmem
from scripted import memory

def square(N): memory.use(N * N)
def bent(N): memory.use(4 * N + N * 37 % 1000)

SIZES = [256, 512, 768, 1024, 2048]
"""

CAUGHT = """
def test_caught(attnmem):
    with pytest.raises(pytest_attnmem.BudgetExceeded):
        attnmem.growth(square, N=SIZES).assert_within("O(N)")

def test_again(attnmem):
    grown = attnmem.growth(square, N=SIZES)
    for contract in ("O(1)", "O(N)", "O(N^2)"):
        with contextlib.suppress(AssertionError): grown.assert_within(contract)

def test_raised(attnmem):
    attnmem.growth(square, N=SIZES).assert_within("O(N)")

def test_within(attnmem):
    attnmem.growth(square, N=SIZES).assert_within("O(N^2)")

def test_unclear(attnmem):
    with contextlib.suppress(pytest_attnmem.BudgetError):
        attnmem.growth(bent, N=SIZES).assert_within("O(N)")
"""

OVER = "peak grows as N^2 on scripted; the contract is"


@pytest.mark.parametrize(
    "options", [(), pytest.param(("-n1",), marks=pytest.mark.thorough)], ids=" ".join
)
def test_a_contract_that_is_caught_fails_its_test(scripted, options):
    ran = scripted.tests(CAUGHT).run("--attnmem-strict=off", *options)
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    assert ran.outcomes == {"failed": 3, "passed": 2}
    assert ran.short("test_caught") == f"FAILED: BudgetExceeded: growth: {OVER} O(N)"
    assert ran.short("test_raised").endswith(f"growth: {OVER} O(N)")
    assert ran.outcome("test_caught", "growth") == f"over: {OVER} O(N)"
    assert ran.outcome("test_again", "growth") == f"over: {OVER} O(1)"
    assert ran.outcome("test_again", "growth #2") == f"over: {OVER} O(N)"
    assert ran.outcome("test_again", "growth #3") == "within"
    assert ran.outcome("test_within", "growth") == "within"
    assert ran.outcome("test_unclear", "growth").startswith(
        "not enforced: sizes cannot tell how peak grows with N: "
    )
    assert ran.row("test_caught", "growth")["budget"] == "O(N)"

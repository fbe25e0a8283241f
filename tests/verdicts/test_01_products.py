"""A product of symbols that a contract does not allow is seen, beneath a constant peak too."""

import pytest
import torch

from pytest_attnmem import BudgetExceeded, growth

BACKENDS = pytest.mark.parametrize(
    "backend", ["cpu", pytest.param("simulated:H100", marks=pytest.mark.thorough)]
)


def hidden(N, d):
    weights = torch.empty(1000, 1000)
    del weights
    torch.empty(N, d)


@BACKENDS
def test_a_product_beneath_a_constant_is_over_and_a_sum_within(suite, backend):
    suite.write("""
import pytest, torch

pytestmark = [pytest.mark.memory_budget("O(N + d)"), pytest.mark.parametrize("N, d", [(128, 16)])]

def test_product(N, d):
    weights = torch.empty(1000, 1000)
    del weights
    torch.empty(N, d)

def test_sum(N, d):
    weights = torch.empty(1000, 1000)
    del weights
    torch.empty(N + d)
""")
    ran = suite.run(f"--attnmem-backend={backend}", "--attnmem-strict=all")
    assert ran.outcomes == {"failed": 1, "passed": 1}
    assert ran.outcome("test_product[128-16]") == (
        f"over: empty at test_suite.py:9, beneath the peak, grows as 4*N*d on {backend};"
        " the contract is O(N + d)"
    )


@BACKENDS
def test_growth_sees_a_product_beneath_a_constant(backend):
    grown = growth(hidden, N=[64, 128, 256, 512], d=[8, 16, 24, 32], backend=backend)
    assert str(grown.polynomial) == "4000000"
    with pytest.raises(BudgetExceeded) as raised:
        grown.assert_within("O(N + d)")
    place = f"{__file__.rpartition('/')[2]}:{hidden.__code__.co_firstlineno + 3}"
    assert str(raised.value).splitlines()[0] == (
        f"growth: empty at {place}, beneath the peak, grows as 4*N*d on {backend}; the contract is"
        " O(N + d)"
    )
    grown.assert_within("O(N*d)")


def test_a_product_of_three_is_over_where_each_two_are_allowed(suite):
    suite.write("""
import pytest, torch

@pytest.mark.memory_budget("O(B*N + N*d + B*d)")
@pytest.mark.parametrize(("B", "N", "d"), [(8, 128, 16)])
def test_it(B, N, d):
    torch.empty(B, N, d)
""")
    ran = suite.run("--attnmem-backend=cpu")
    assert ran.outcome("test_it[8-128-16]") == (
        "over: peak grows as 4*B*N*d on cpu; the contract is O(B*N + N*d + B*d)"
    )


def test_larger_sizes_show_what_an_unnamed_symbol_does_and_a_note_names_them(suite):
    suite.write("""
import pytest, torch

@pytest.mark.memory_budget("O(1)")
@pytest.mark.parametrize("N", [512])
def test_over(N):
    torch.empty(max(N, 512))

@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [512])
def test_within(N):
    torch.empty(min(N, 512), 512)
""")
    ran = suite.run("--attnmem-backend=simulated:H100", "--attnmem-report")
    assert ran.outcome("test_over[512]") == (
        "over: peak grows as 4*N where N >= 512 on simulated:H100; the contract is O(1)"
    )
    assert ran.outcome("test_within[512]") == (
        "within: the peak does not depend on N from 512 to 32768; beneath it empty at"
        " test_suite.py:12 does not depend on N where N >= 512"
    )

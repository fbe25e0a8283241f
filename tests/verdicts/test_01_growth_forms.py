"""A form counts only where the sizes show it: a constant hides nothing, a bend breaks nothing."""

import pytest
import torch

from pytest_attnmem import BudgetExceeded, growth
from pytest_attnmem.budgets.growth_contract import parse_contract
from pytest_attnmem.budgets.growth_fit import Growth
from pytest_attnmem.budgets.growth_judgement import Answer
from pytest_attnmem.formulas.interpolation import padded

BOTH = pytest.mark.parametrize("backend", ["cpu", "simulated:H100"])

HIDDEN = """
from torch import nn

class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return (q @ k.mT).softmax(-1) @ v

class Rows(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, width, bias=False)

    def forward(self, x):
        return self.up(x).tanh()

@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [{N}])
def test_it(N, qkv):
    x, _, _ = qkv(1, 1, N, {width})
    weights = torch.ones(4 << 20, device=x.device)
    del weights
    with torch.no_grad():
        {module}({width}).to(x.device)(x)
"""


def test_one_size_beyond_a_step_shows_no_ceiling():
    sizes = [32, 64, 96, 128, 256]
    flat_then_square = [29503752, 29536776, 29569800, 29602824, 39667720]
    assert padded("N", sizes, flat_then_square) is None
    beyond = [*sizes, 192, 224]  # three sizes on each side of the step, all on one line a side
    stepped = [4 * n + 1024 * -(-n // 128) for n in beyond]
    assert str(padded("N", beyond, stepped)) == "4*N + 1024*ceil(N/128)"


@BOTH
def test_a_constant_and_then_a_square_is_over(suite, backend):
    ran = suite.tests("""
@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [256])
def test_it(N):
    a = torch.empty(100 * 1024, dtype=torch.uint8)
    del a
    torch.empty(N, N)
""").run(f"--attnmem-backend={backend}")
    on_cpu = "empty at test_suite.py:9 grows as 4*N^2"  # 4 sizes of the square confirm no fit
    what = on_cpu if backend == "cpu" else "peak grows as 4*N^2 where N >= 160"
    assert ran.outcome("test_it[256]") == f"over: {what} on {backend}; the contract is O(N)"


@BOTH
@pytest.mark.parametrize("length", [16, 64])
def test_weights_do_not_hide_a_matrix(suite, backend, length):
    suite.tests(HIDDEN.format(N=length, width=256, module="Attention"))
    matrix = "softmax at test_suite.py:13, beneath the peak, grows as 4*N^2"
    if (backend, length) == ("simulated:H100", 64):  # up to 4096, where the matrices are the peak
        matrix = "bmm at test_suite.py:13 grows as 4*N^2 where N >= 256"
    assert suite.run(f"--attnmem-backend={backend}").outcome(f"test_it[{length}]") == (
        f"over: {matrix} on {backend}; the contract is O(N)"
    )


@BOTH
def test_a_contract_that_a_constant_hides_says_so(suite, backend):
    suite.tests(HIDDEN.format(N=64, width=64, module="Rows"))
    ran = suite.run(f"--attnmem-backend={backend}", "--attnmem-report")
    last = 64 if backend == "cpu" else 4096
    reason = (
        f"the peak does not depend on N from 8 to {last}; beneath it mm at test_suite.py:21 grows"
        " as 256*N"
    )
    assert ran.outcome("test_it[64]") == f"within: {reason}"
    assert f"within  test_suite.py::test_it[64]: {reason}" in ran.text


def test_compiled_code_is_judged_by_its_peak_alone(suite):
    """Compiled code runs eagerly under a tracker, and would hold a matrix that it never makes."""
    ran = suite.tests("""
def fused(graph, inputs):  # a compiler that needs no matrix
    return lambda *given: (torch.ones(1 << 16).sum() * 0 + given[-1].sum(-1),)

def rows(q):
    return (q @ q.mT).softmax(-1).sum(-1)

pytestmark = [pytest.mark.memory_budget("O(N)", warmup=1), pytest.mark.parametrize("N", [64])]

def test_compiled(N, qkv):
    q, _, _ = qkv(1, 1, N, 16)
    torch.compile(rows, backend=fused, dynamic=True)(q)

def test_eager(N, qkv):
    q, _, _ = qkv(1, 1, N, 16)
    torch.ones(1 << 16)
    rows(q)
""").run()
    assert ran.outcome("test_compiled[64]").startswith("within")
    assert ran.outcome("test_eager[64]").startswith("over: ")


def test_a_grid_that_bends_is_unclear():
    """Phases take over from one another at growing sizes."""
    sizes = {"N": (32, 64, 96, 128), "d": (32, 64, 96, 128)}
    peaks = {
        (n, d): max(4 * d * d, 4 * n * d, 6 * n * d - 128 * d, 7 * n * d - 224 * d)
        for n in sizes["N"]
        for d in sizes["d"]
    }
    judged = Growth(sizes, peaks).judge(parse_contract("O(N*d + d^2)"))
    assert (judged.answer, judged.reason) == (
        Answer.UNKNOWN,
        "sizes cannot tell how peak grows with N and d together",
    )


def test_training_is_not_over(suite, backend):
    ran = suite.tests("""
from torch import nn

@pytest.mark.memory_budget("O(N*d + d^2)")
@pytest.mark.parametrize(("N", "d"), [(256, 256)])
def test_it(N, d):
    model = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))
    model(torch.randn(N, d)).sum().backward()
""").run(f"--attnmem-backend={backend}")
    assert ran.row("test_it[256-256]")["outcome"] == "not enforced"


def test_a_line_that_bends_is_looked_at_more_closely(suite):
    ran = suite.tests("""
@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [256])
def test_it(N):
    torch.empty(max(N, 2 * N - 80, 4 * N - 300), dtype=torch.uint8)
""").run("--attnmem-backend=cpu")
    assert ran.row("test_it[256]")["outcome"] == "within"


def hidden(N, d):
    weights = torch.empty(1000, 1000)
    del weights
    torch.empty(N, d)


def test_a_product_beneath_a_constant_is_over_and_a_sum_within(suite, backend):
    ran = suite.tests("""
pytestmark = [pytest.mark.memory_budget("O(N + d)"), pytest.mark.parametrize("N, d", [(128, 16)])]

def test_product(N, d):
    weights = torch.empty(1000, 1000)
    del weights
    torch.empty(N, d)

def test_sum(N, d):
    weights = torch.empty(1000, 1000)
    del weights
    torch.empty(N + d)
""").run(f"--attnmem-backend={backend}", "--attnmem-strict=all")
    assert ran.outcomes == {"failed": 1, "passed": 1}
    assert ran.outcome("test_product[128-16]") == (
        f"over: empty at test_suite.py:9, beneath the peak, grows as 4*N*d on {backend};"
        " the contract is O(N + d)"
    )


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
    ran = suite.tests("""
@pytest.mark.memory_budget("O(B*N + N*d + B*d)")
@pytest.mark.parametrize(("B", "N", "d"), [(8, 128, 16)])
def test_it(B, N, d):
    torch.empty(B, N, d)
""").run("--attnmem-backend=cpu")
    assert ran.outcome("test_it[8-128-16]") == (
        "over: peak grows as 4*B*N*d on cpu; the contract is O(B*N + N*d + B*d)"
    )


def test_larger_sizes_show_what_an_unnamed_symbol_does_and_a_note_names_them(suite):
    ran = suite.tests("""
@pytest.mark.memory_budget("O(1)")
@pytest.mark.parametrize("N", [512])
def test_over(N):
    torch.empty(max(N, 512))

@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [512])
def test_within(N):
    torch.empty(min(N, 512), 512)
""").run("--attnmem-backend=simulated:H100", "--attnmem-report")
    assert ran.outcome("test_over[512]") == (
        "over: peak grows as 4*N where N >= 512 on simulated:H100; the contract is O(1)"
    )
    assert ran.outcome("test_within[512]") == (
        "within: the peak does not depend on N from 512 to 32768; beneath it empty at"
        " test_suite.py:12 does not depend on N where N >= 512"
    )

"""Phases that take over from one another at growing sizes break no contract."""

import pytest

from pytest_attnmem.budgets.growth_contract import parse_contract
from pytest_attnmem.budgets.growth_fit import Growth
from pytest_attnmem.budgets.growth_judgement import Answer


def test_a_grid_that_bends_is_unclear():
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


@pytest.mark.parametrize(
    "backend", ["cpu", pytest.param("simulated:H100", marks=pytest.mark.thorough)]
)
def test_training_is_not_over(suite, backend):
    suite.write("""
import pytest, torch
from torch import nn

@pytest.mark.memory_budget("O(N*d + d^2)")
@pytest.mark.parametrize(("N", "d"), [(256, 256)])
def test_it(N, d):
    model = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))
    model(torch.randn(N, d)).sum().backward()
""")
    ran = suite.run(f"--attnmem-backend={backend}")
    assert ran.row("test_it[256-256]")["outcome"] == "not enforced"


def test_a_line_that_bends_is_looked_at_more_closely(suite):
    suite.write("""
import pytest, torch

@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [256])
def test_it(N):
    torch.empty(max(N, 2 * N - 80, 4 * N - 300), dtype=torch.uint8)
""")
    ran = suite.run("--attnmem-backend=cpu")
    assert ran.row("test_it[256]")["outcome"] == "within"

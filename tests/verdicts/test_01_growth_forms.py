"""A form counts only where the sizes show it, and a constant hides nothing."""

import pytest

from pytest_attnmem.formulas.interpolation import padded

BACKENDS = pytest.mark.parametrize("backend", ["cpu", "simulated:H100"])

MODEL = """
import pytest
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return (q @ k.mT).softmax(-1) @ v  # guilty

class Rows(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, width, bias=False)

    def forward(self, x):
        return self.up(x).tanh()
"""


def line_of(text, mark="# guilty"):
    return 1 + next(n for n, line in enumerate(text.splitlines()) if mark in line)


def test_one_size_beyond_a_step_shows_no_ceiling():
    sizes = [32, 64, 96, 128, 256]
    flat_then_square = [29503752, 29536776, 29569800, 29602824, 39667720]
    assert padded("N", sizes, flat_then_square) is None
    beyond = [*sizes, 192, 224]  # three sizes on each side of the step, all on one line a side
    stepped = [4 * n + 1024 * -(-n // 128) for n in beyond]
    assert str(padded("N", beyond, stepped)) == "4*N + 1024*ceil(N/128)"


@BACKENDS
def test_a_constant_and_then_a_square_is_over(suite, backend):
    suite.write("""
import pytest, torch

@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [256])
def test_it(N):
    a = torch.empty(100 * 1024, dtype=torch.uint8)
    del a
    torch.empty(N, N)
""")
    ran = suite.run(f"--attnmem-backend={backend}")
    on_cpu = "empty at test_suite.py:9 grows as 4*N^2"  # 4 sizes of the square confirm no fit
    what = on_cpu if backend == "cpu" else "peak grows as 4*N^2 where N >= 160"
    assert ran.outcome("test_it[256]") == f"over: {what} on {backend}; the contract is O(N)"


@BACKENDS
@pytest.mark.parametrize("length", [16, 64])
def test_weights_do_not_hide_a_matrix(suite, backend, length):
    suite.write(f"""{MODEL}
@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [{length}])
def test_it(N, qkv):
    x, _, _ = qkv(1, 1, N, 256)
    weights = torch.ones(4 << 20, device=x.device)
    del weights
    with torch.no_grad():
        Attention(256).to(x.device)(x)
""")
    ran = suite.run(f"--attnmem-backend={backend}")
    row = ran.row(f"test_it[{length}]")
    assert row["outcome"] == "over"
    line = line_of(MODEL)
    matrix = f"softmax at test_suite.py:{line}, beneath the peak, grows as 4*N^2"
    if (backend, length) == ("simulated:H100", 64):  # up to 4096, where the matrices are the peak
        matrix = f"bmm at test_suite.py:{line} grows as 4*N^2 where N >= 256"
    assert row["reason"] == f"{matrix} on {backend}; the contract is O(N)"


@BACKENDS
def test_a_contract_that_a_constant_hides_says_so(suite, backend):
    suite.write(f"""{MODEL}
@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [64])
def test_it(N, qkv):
    x, _, _ = qkv(1, 1, N, 64)
    weights = torch.ones(4 << 20, device=x.device)
    del weights
    with torch.no_grad():
        Rows(64).to(x.device)(x)
""")
    ran = suite.run(f"--attnmem-backend={backend}", "--attnmem-report")
    last = 4096 if backend.startswith("simulated") else 64
    reason = (
        f"the peak does not depend on N from 8 to {last}; beneath it mm at test_suite.py:21 grows"
        " as 256*N"
    )
    assert ran.outcome("test_it[64]") == f"within: {reason}"
    assert f"within  test_suite.py::test_it[64]: {reason}" in ran.text


def test_compiled_code_is_judged_by_its_peak_alone(suite):
    """Compiled code runs eagerly under a tracker, and would hold a matrix that it never makes."""
    suite.write("""
import pytest, torch

def fused(graph, inputs):  # a compiler that needs no matrix
    return lambda *given: (torch.ones(1 << 16).sum() * 0 + given[-1].sum(-1),)

def rows(q):
    return (q @ q.mT).softmax(-1).sum(-1)

@pytest.mark.memory_budget("O(N)", warmup=1)
@pytest.mark.parametrize("N", [64])
def test_compiled(N, qkv):
    q, _, _ = qkv(1, 1, N, 16)
    torch.compile(rows, backend=fused, dynamic=True)(q)

@pytest.mark.memory_budget("O(N)", warmup=1)
@pytest.mark.parametrize("N", [64])
def test_eager(N, qkv):
    q, _, _ = qkv(1, 1, N, 16)
    torch.ones(1 << 16)
    rows(q)
""")
    ran = suite.run()
    assert ran.outcome("test_compiled[64]").startswith("within")
    assert ran.outcome("test_eager[64]").startswith("over: ")

"""Gradients that autograd sums in place, as on plain tensors."""

import subprocess
import sys

import pytest

#: In a process of its own: a refused compilation leaves PyTorch's evaluator of Python's frames in
#: place, which keeps the tensors of a frame alive a little longer.
SCRIPT = """
import torch
from pytest_attnmem import measure

def program():
    x = torch.ones(5, device="cuda", requires_grad=True)
    found = torch.diff(x, n=4)
    torch.autograd.backward([found], [torch.ones_like(found)])

def broken(x):
    torch._dynamo.graph_break()
    return x

peaks = [measure(program, backend="simulated:A100-80GB").peak_bytes]
try:
    torch.compile(broken, fullgraph=True)(torch.ones(2))
except RuntimeError as error:
    assert "graph_break" in str(error)
    peaks.append(measure(program, backend="simulated:A100-80GB").peak_bytes)
print(*peaks)
"""


@pytest.mark.thorough
def test_sums_are_in_place_after_a_refused_compilation_too():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["84", "84"]

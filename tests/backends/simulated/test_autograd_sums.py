"""Gradients that autograd sums in place, as on plain tensors."""

import pytest
import torch


def broken(x):
    torch._dynamo.graph_break()
    return x


def test_sums_are_in_place(run):
    def program():
        x = torch.ones(5, device="cuda", requires_grad=True)
        found = torch.diff(x, n=4)
        torch.autograd.backward([found], [torch.ones_like(found)])

    assert run(program).peak_bytes == 84
    with pytest.raises(RuntimeError, match="graph_break"):  # Python's frames stay PyTorch's
        torch.compile(broken, fullgraph=True)(torch.ones(2))
    assert run(program).peak_bytes == 84

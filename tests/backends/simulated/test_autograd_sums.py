"""Gradients that autograd sums in place, as on plain tensors."""

import torch


def test_sums_stay_in_place_after_a_compilation(run):
    def program():
        x = torch.ones(1000, device="cuda", requires_grad=True)
        torch.diff(x, n=3).sum().backward()

    before = run(program)
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    assert compiled(torch.ones(2)).tolist() == [2, 2]
    assert run(program).peak_bytes == before.peak_bytes

"""Subclasses of tensors in a program: PyTorch's own C++ code runs them."""

import torch


class Named(torch.Tensor):
    pass


def test_a_subclass_has_the_memory_of_its_tensor(run):
    def program(kind):
        x = torch.ones(20, device="cuda").as_subclass(kind)
        y = (x * 2).sum()
        assert (type(y), y.item()) == (kind, 40)
        return y

    found = [run(lambda kind=kind: program(kind)) for kind in (Named, torch.Tensor)]
    assert found[0].peak_bytes == found[1].peak_bytes == 2 * 80 + 4

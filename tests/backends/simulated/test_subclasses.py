"""Subclasses of tensors in a program: PyTorch's own C++ code runs them."""

import torch
from torch import nn


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


def test_the_classes_of_pytorch_keep_their_gradients(run):
    def program():
        x = torch.ones(2, device="cuda", requires_grad=True)
        (x.as_subclass(torch.Tensor) * 2).sum().backward()
        parameter = torch.Tensor._make_subclass(nn.Parameter, x.detach(), True)
        assert isinstance(parameter, nn.Parameter)
        assert isinstance(nn.Buffer(x.detach()), nn.Buffer)
        return x.grad.tolist()

    found = []
    assert run(lambda: found.append(program())).unmeasured is None
    assert found == [[2, 2]]

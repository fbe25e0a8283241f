"""Arguments that handle PyTorch's functions themselves, and subclasses of tensors."""

import torch
from torch import nn


class Held:
    """Holds a tensor; PyTorch's functions are called on it, and their results held."""

    def __init__(self, tensor):
        self.tensor = tensor

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        def plain(arg):
            return arg.tensor if isinstance(arg, Held) else arg

        named = {name: plain(arg) for name, arg in (kwargs or {}).items()}
        return Held(func(*map(plain, args), **named))


class Chosen(nn.Module):
    """[N, 4] → [4]."""

    def forward(self, x):
        return torch.cat([x, nn.functional.relu(x) + 1]).softmax(-1)[0]


def test_an_argument_handles_the_functions_that_it_is_given_to(run):
    def program():
        x = torch.ones(3, 4, device="cuda")
        one = torch.add(Held(x), 1)
        two = nn.functional.linear(Held(x), torch.ones(2, 4, device="cuda"))
        assert (one.tensor.tolist(), two.tensor.tolist()) == ([[2] * 4] * 3, [[4] * 2] * 3)
        assert torch.mul(x, other=one).tensor.tolist() == [[2] * 4] * 3

    run(program)


def test_a_module_is_traced_by_proxies_and_runs(run):
    def program():
        x = torch.ones(3, 4, device="cuda")
        for module in (nn.Sequential(nn.Linear(4, 4, device="cuda"), nn.ReLU()), Chosen()):
            traced = torch.fx.symbolic_trace(module)
            assert torch.equal(traced(x), module(x))

    assert run(program).unmeasured is None


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

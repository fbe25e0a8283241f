"""Spies that a test puts in the place of PyTorch's functions: they run once, as on a device."""

from functools import wraps
from unittest import mock

import pytest
import torch
import torch.nn.functional as F

from pytest_attnmem import measure


def on_simulated(body):
    """Returns what the body returned, run with the simulated device."""
    found = []
    measure(lambda: found.append(body()), backend="simulated:A100-80GB")
    return found[0]


CALLS = {
    "to": lambda x: x.to("cuda"),
    "cuda": lambda x: x.cuda(),
    "cpu": lambda x: x.cpu(),
    "type": lambda x: x.type(torch.float64),
    "item": lambda x: x[0, 0].item(),
    "numpy": lambda x: x.cpu().numpy(),
    "backward": lambda x: x.requires_grad_().sum().backward(),
    "__add__": lambda x: x + 1,
    "add_": lambda x: x.add_(1),
    "split": lambda x: x.split(2),
    "norm": lambda x: x.norm(),
    "new_tensor": lambda x: x.new_tensor([1.0, 2.0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_spy_on_a_method_sees_a_call_once(name, monkeypatch):
    seen = []
    original = getattr(torch.Tensor, name)

    def spy(self, *args, **kwargs):
        seen.append(name)
        return original(self, *args, **kwargs)

    def body():
        x = torch.ones(4, 4, device="cuda")
        with monkeypatch.context() as patch:
            patch.setattr(torch.Tensor, name, spy)
            CALLS[name](x)

    on_simulated(body)
    assert seen == [name]


def test_a_spy_that_wraps_a_function(monkeypatch):
    seen = []
    original = F.softmax

    @wraps(original)
    def spy(*args, **kwargs):
        seen.append(args[0].shape)
        return original(*args, **kwargs)

    def body():
        x = torch.ones(4, 4, device="cuda")
        with monkeypatch.context() as patch:
            patch.setattr(F, "softmax", spy)
            return F.softmax(x, dim=0)[0, 0].item()

    assert on_simulated(body) == 0.25
    assert seen == [(4, 4)]


def test_a_mock_that_wraps_a_function():
    def body():
        x = torch.ones(4, 4, device="cuda")
        with mock.patch.object(F, "softmax", wraps=F.softmax) as spied:
            torch.nn.Softmax(dim=0)(x)
        return spied.call_count

    assert on_simulated(body) == 1


def test_a_property(monkeypatch):
    original = torch.Tensor.grad_fn

    def body():
        x = torch.ones(4, 4, device="cuda")
        with monkeypatch.context() as patch:
            read = property(lambda self: (seen.append("grad_fn"), original.__get__(self))[1])
            patch.setattr(torch.Tensor, "grad_fn", read)
            return x.grad_fn

    seen = []
    assert on_simulated(body) is None
    assert seen == ["grad_fn"]


def test_the_function_is_not_called_by_another_name_after(monkeypatch):
    """What is in the place of a function later is not taken for the function."""

    def double(x):
        return F.relu(x) * 2

    def body():
        x = torch.ones(4, device="cuda")
        with monkeypatch.context() as patch:
            patch.setattr(F, "softmax", double)
            first = F.softmax(x)
        return first.tolist(), double(x).tolist(), F.softmax(x, dim=0).tolist()

    assert on_simulated(body) == ([2.0] * 4, [2.0] * 4, [0.25] * 4)

"""Tensors that share memory have the same values, whoever wrote them, and versions as on CUDA."""

import copy

import pytest
import torch
from torch import nn

ALIASES = {
    "detach": lambda n: n.detach(),
    "data": lambda n: n.data,
    "view": lambda n: n.view(1),
    "reshape": lambda n: n.reshape(1),
    "None": lambda n: n[None],
    "unsqueeze": lambda n: n.unsqueeze(0),
    "copy": copy.copy,
    "expand": lambda n: n.expand(1),
}


@pytest.fixture(autouse=True)
def named(anywhere):
    torch.empty(0, device="cuda")


@pytest.mark.parametrize("alias", ALIASES)
@pytest.mark.parametrize("start", [0, 0.5])
def test_a_number_and_its_alias(alias, start):
    """A copy keeps what the number was; the alias is what it is."""
    number = torch.tensor(start)
    other = ALIASES[alias](number)
    on_device = other.to("cuda")
    number.add_(1)
    assert (on_device.sum().item(), other.sum().item()) == (start, start + 1)
    other.add_(1)
    assert number.item() == start + 2


def test_a_counter_of_batches_and_its_copies():
    layer = nn.BatchNorm1d(4)
    copies = [
        copy.deepcopy(layer).to("cuda").state_dict(),
        {name: value.to("cuda") for name, value in layer.state_dict().items()},
        {name: value.clone() for name, value in layer.state_dict().items()},
    ]
    live = layer.state_dict()
    layer(torch.randn(8, 4))
    counted = [state["num_batches_tracked"].item() for state in (*copies, live)]
    assert counted == [0, 0, 0, 1]


def test_a_negative_view_after_a_plain_one():
    """The result of a slice depends on the bit that negates."""
    values = torch.tensor([1 + 2j, 3 - 1j], device="cuda")
    assert values.imag[1:].tolist() == [-1]
    assert values.conj().imag[1:].tolist() == [1]
    assert torch._neg_view(torch.ones(3, device="cuda"))[1:].tolist() == [-1, -1]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_an_optimizers_step_is_a_write(device):
    weight = torch.ones(3, device=device, requires_grad=True)
    weight.grad = torch.ones_like(weight)
    squares = (weight * weight).sum()
    torch.optim.SGD([weight], lr=0.1, foreach=True).step()
    assert weight._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squares.backward()


def test_a_tensor_of_inference_mode_has_no_versions():
    with torch.inference_mode():
        x = torch.ones(3, device="cuda")
        torch._foreach_mul_([x, x], 2.0)
        assert x.tolist() == [4, 4, 4]

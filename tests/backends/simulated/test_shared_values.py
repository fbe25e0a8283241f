"""Tensors that share memory on the host have the same values, whoever wrote them."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from pytest_attnmem.backends.primed_backend import PrimedBackend

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


def test_views_that_a_fixture_made(kept_session):
    """The program meets them one by one, and writes in between."""
    x = torch.arange(6.0)
    number, part, parameter = x[2], x[3:], nn.Parameter(x)

    def program():
        torch.empty(0, device="cuda")
        x.add_(1)
        assert (number.item(), part.tolist()) == (3, [4, 5, 6])
        number.fill_(9)
        part.mul_(2)
        x[0] = 7
        assert number.item() == 9
        return parameter.tolist()

    assert PrimedBackend(kept_session[0], 0).run(program)[1] == [7, 2, 9, 8, 10, 12]


def saved(x, **how):
    torch.save(x, file := io.BytesIO(), **how)
    file.seek(0)
    return torch.load(file)


@pytest.mark.parametrize(
    ("through", "expected"),
    [
        (saved, (12, [11, 12, 13, 14])),
        (lambda x: saved(x, _use_new_zipfile_serialization=False), (12, [11, 12, 13, 14])),
        (lambda x: pickle.loads(pickle.dumps(x)), (2, [1, 2, 3, 4])),  # each with its own memory
    ],
    ids=["zip", "legacy", "pickle"],
)
def test_files_of_a_fixtures_tensors(kept_session, through, expected):
    x = torch.arange(4.0)
    state = {"x": x, "part": x[1], "p": nn.Parameter(x)}

    def program():
        torch.empty(0, device="cuda")
        x.add_(1)
        found = through(state)
        found["x"].add_(10)
        return found["part"].item(), found["p"].tolist()

    assert PrimedBackend(kept_session[0], 0).run(program)[1] == expected

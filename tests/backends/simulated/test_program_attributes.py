"""Attributes that a program sets of tensors go where PyTorch's go: into copies and files."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from pytest_attnmem.backends.primed_backend import PrimedBackend


def saved(x):
    torch.save(x, file := io.BytesIO())
    file.seek(0)
    return torch.load(file, weights_only=False)


def through_pickle(x):
    return pickle.loads(pickle.dumps(x))


KINDS = {
    "tensor": lambda device: torch.arange(4.0, device=device),
    "leaf": lambda device: torch.ones(4, device=device, requires_grad=True),
    "parameter": lambda device: nn.Parameter(torch.ones(4, device=device)),
}
WAYS = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": through_pickle, "save": saved}


def tagged(kind, device):
    x = KINDS[kind](device)
    x.tag, x.facts = "expert", {"ranks": [0, 1]}
    return x


def check(x, kind, way):
    y = WAYS[way](x)
    found = vars(y).get("tag"), vars(y).get("facts")
    dropped = kind == "parameter" and way == "deepcopy"  # as ``Parameter.__deepcopy__`` does
    assert found == ((None, None) if dropped else ("expert", {"ranks": [0, 1]}))
    assert dropped or (y.facts is x.facts) == (way == "copy")
    assert isinstance(y, nn.Parameter) == isinstance(x, nn.Parameter)
    assert (y.requires_grad, y.is_leaf, y.tolist()) == (x.requires_grad, True, x.tolist())
    with torch.no_grad():
        x.fill_(7)
    assert (y.tolist() == x.tolist()) == (way == "copy")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_copies_have_the_attributes(anywhere, device, kind, way):
    torch.empty(0, device="cuda")  # names the device
    check(tagged(kind, device), kind, way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_copies_of_a_fixtures_tensor_have_the_attributes(kept_session, kind, way):
    """The program sets attributes of PyTorch's own tensor, for which a fake stands."""
    x = tagged(kind, "cpu")

    def program():
        torch.empty(0, device="cuda")
        x.add(1)
        x.tag, x.facts = "expert", {"ranks": [0, 1]}
        check(x, kind, way)

    PrimedBackend(kept_session[0], 0).run(program)


def test_a_saved_parameter_is_plain_data(anywhere):
    """``torch.load`` reads no more than that by default."""
    torch.save({"p": nn.Parameter(torch.ones(2, device="cuda"))}, file := io.BytesIO())
    file.seek(0)
    assert isinstance(torch.load(file, weights_only=True)["p"], nn.Parameter)


@pytest.mark.parametrize("more", [{}, {"requires_grad": False}])
def test_a_parameter_is_made_as_accelerate_does(anywhere, more):
    p = nn.Parameter(torch.ones(2, device="cuda"))
    q = type(p)(p.detach() * 2, **p.__dict__, **more)
    assert isinstance(q, nn.Parameter)
    assert (q.tolist(), q.requires_grad) == ([2, 2], not more)

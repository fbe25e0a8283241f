"""Subclasses of tensors in a program."""

import pytest
import torch
from torch import nn

from pytest_attnmem.errors import CannotSimulate


class Named(torch.Tensor):
    pass


class Weight(nn.Parameter):
    pass


class Logged(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


MADE = {
    "as_subclass": (Named, lambda: torch.ones(2, device="cuda").as_subclass(Named)),
    "make_subclass": (
        Logged,
        lambda: torch.Tensor._make_subclass(Logged, torch.ones(2, device="cuda")),
    ),
    "parameter": (Weight, lambda: Weight(torch.ones(2, device="cuda"))),
    "moved": (Weight, lambda: moved(nn.Linear(2, 2, device="cpu"))),
}


def moved(layer):
    with torch._C.DisableTorchFunction():
        layer.weight.__class__ = Weight
    return layer.cuda()


def refused(kind):
    return (
        rf"^a tensor of the subclass {kind.__name__} at test_refused_subclasses\.py:\d+ cannot be"
        r" simulated; use a plain torch\.Tensor, or backend='cpu' for this test$"
    )


@pytest.mark.parametrize(("kind", "make"), MADE.values(), ids=MADE)
def test_a_subclass_outside_windows_is_refused_in_one_line(session, kind, make):
    with pytest.raises(CannotSimulate, match=refused(kind)):
        make()


@pytest.mark.parametrize("name", ["as_subclass", "make_subclass", "parameter"])
def test_a_subclass_inside_a_window_is_refused_in_one_line(run, name):
    kind, make = MADE[name]

    def program():
        with pytest.raises(CannotSimulate, match=refused(kind)):
            make()

    assert "cannot be simulated; use a plain torch.Tensor" in run(program).unmeasured


def test_a_subclass_from_outside_the_window_is_refused(run):
    def program():
        with pytest.raises(
            CannotSimulate, match=r"a tensor \[2\] float32 of the subclass Named at"
        ):
            torch.ones(2, device="cuda") + named

    named = torch.ones(2).as_subclass(Named)
    run(program)


def test_the_classes_of_pytorch_are_no_subclasses(run):
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

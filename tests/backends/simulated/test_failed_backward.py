"""A failed backward pass keeps nothing, as on a device."""

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from pytest_attnmem.backends.simulated.failed_backward import LastStep


class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("this step fails")


class FailsInside(torch.autograd.Function):
    """Fails in a pass inside its backward pass, and catches the error."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        with torch.enable_grad(), pytest.raises(RuntimeError, match="this step fails"):
            branches(Fails, torch.ones(3000, device="cuda", requires_grad=True))
        return gradient


def branches(function, x=None):
    x = torch.ones(1000, device="cuda", requires_grad=True) if x is None else x
    y = x.exp()
    ((y.sin() + function.apply(y * 2)) * y + x * function.apply(y)).sum().backward()


def fails():
    with pytest.raises(RuntimeError, match="this step fails"):
        branches(Fails)


@pytest.mark.parametrize("program", [fails, lambda: branches(FailsInside)])
def test_a_failed_pass_keeps_nothing(run, program):
    assert run(program).retained_bytes == 0


class TwoGradients(torch.autograd.Function):
    """Keeps a weak reference to the gradient of its first input."""

    @staticmethod
    def forward(ctx, x, y, kept):
        ctx.kept = kept
        return x + y

    @staticmethod
    def backward(ctx, gradient):
        first = gradient.clone()
        ctx.kept.append(StorageWeakRef(first.untyped_storage()))
        return first, gradient.clone(), None


def test_the_last_step_is_taken_after_those_of_a_failed_pass():
    x = torch.ones(1000, requires_grad=True)
    kept = []
    with pytest.raises(RuntimeError, match="this step fails"):
        TwoGradients.apply(x.sin(), Fails.apply(x), kept).sum().backward()
    assert not kept[0].expired()  # it waits in the queue
    LastStep().empty_queue()
    assert kept[0].expired()
    assert x.grad is None

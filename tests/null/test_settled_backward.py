"""Numbers of the null device repeat: autograd's thread is done when the program goes on."""


def test_gradients_that_are_freed_at_once_have_one_peak(under):
    script = """
import torch
from pytest_attnmem.backends.null.program import prepare
prepare(10**11)
weight, peaks = torch.ones(1000, device="cuda", requires_grad=True), set()
for _ in range(100):
    torch.cuda.reset_peak_memory_stats()
    for _ in range(5):
        (gradient,) = torch.autograd.grad(weight.sin().sum(), weight)
        del gradient
        torch.ones(100_000, device="cuda")
    peaks.add(torch.cuda.memory_stats()["requested_bytes.all.peak"])
answer(*peaks)
"""
    assert under(script) == (4000 + 400_000,)


def test_tensors_of_a_failed_pass_are_freed(under):
    script = """
import torch
from pytest_attnmem.backends.null.program import prepare
prepare(10**11)
def fail(gradient):
    raise RuntimeError("no gradient")
weight, peaks = torch.ones(100_000, device="cuda", requires_grad=True), set()
for _ in range(100):
    inner = weight.sin()
    inner.register_hook(fail)
    try:
        inner.exp().sum().backward()
    except RuntimeError:
        pass
    del inner
    torch.cuda.reset_peak_memory_stats()
    torch.ones(1000, device="cuda")
    peaks.add(torch.cuda.memory_stats()["requested_bytes.all.peak"])
answer(*peaks)
"""
    assert under(script) == (400_000 + 4000,)


def test_a_backward_pass_inside_another_one(under):
    script = """
import torch
from torch.utils.checkpoint import checkpoint
from pytest_attnmem.backends.null.program import prepare
prepare(10**11)
x = torch.ones(10, device="cuda", requires_grad=True)
checkpoint(torch.sin, x, use_reentrant=True).sum().backward()
answer(torch.allclose(x.grad, x.detach().cos()))
"""
    assert under(script) == (True,)


def test_a_first_backward_pass_inside_a_transform(under):
    script = """
import torch
from pytest_attnmem.backends.null.program import prepare
prepare(10**11)
gradient = torch.func.grad(lambda x: x.sin().sum())(torch.ones(10, device="cuda"))
answer(torch.allclose(gradient, torch.ones(10, device="cuda").cos()))
"""
    assert under(script, ATTNMEM_TEST="a process of its own") == (True,)

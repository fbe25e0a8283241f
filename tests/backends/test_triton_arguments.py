"""The arguments of Triton kernels, without Triton."""

from types import SimpleNamespace

import torch

from pytest_attnmem.backends.null.triton_arguments import (
    held_tensors,
    large_numbers,
    makes_pointers,
)


class Function:
    """A function with its source, as a ``JITFunction`` has it."""

    def __init__(self, fn, src):
        self.fn = fn
        self.src = src


def calls_another():
    return casting()  # noqa: F821


def calls_itself():
    return calls_itself()


def test_pointers_are_found_in_the_functions_that_a_kernel_calls(monkeypatch):
    kernel = Function(calls_another, "return casting()")
    assert not makes_pointers(kernel)
    casting = Function(lambda: None, "x.to(tl.pointer_type(tl.float32))")
    monkeypatch.setitem(globals(), "casting", casting)
    assert makes_pointers(kernel)
    monkeypatch.setitem(globals(), "calls_itself", Function(calls_itself, "calls_itself()"))
    assert not makes_pointers(globals()["calls_itself"])


def test_the_tensors_of_a_launch_are_found():
    a, b, c = torch.zeros(1), torch.zeros(2), torch.zeros(3)
    hidden = SimpleNamespace(base=c, shape=[3])
    found = held_tensors([1, a, (None, [b]), hidden])
    assert {id(tensor) for tensor in found} == {id(a), id(b), id(c)}
    assert held_tensors([a, SimpleNamespace(data_ptr=lambda: 7)]) is None


def test_numbers_that_may_be_addresses():
    assert large_numbers([1, 2**40, True, 2.0**40, "x"]) == [2**40]

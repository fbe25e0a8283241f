"""Pinned memory in windows; tests/plugin/test_simulated_fixtures.py has it in fixtures."""

import pytest
import torch


def test_copies_and_factories_are_pinned_as_on_a_device(run):
    """The answers are those of PyTorch's CUDA build on the null device."""

    def program():
        x = torch.ones(2, device="cpu", requires_grad=True)
        on_device = torch.ones(2, device="cuda")
        y = x.pin_memory()
        y.sum().backward()
        pinned = (y, y[1:], torch.ones(0).pin_memory())
        assert [one.is_pinned() for one in pinned] == [True, True, False]
        plain = (x, y.clone(), on_device, on_device.cpu())
        assert not any(one.is_pinned() for one in plain)
        assert y.pin_memory() is y
        assert x.grad.tolist() == [1, 1]

    assert run(program).peak_bytes == 8  # memory of the host counts nothing


def test_memory_of_the_device_cannot_be_pinned(run):
    def program():
        with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
            torch.ones(2, device="cuda").pin_memory()

    assert run(program).unmeasured is None

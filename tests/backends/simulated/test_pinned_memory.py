"""Pinned memory in windows; tests/plugin/test_simulated_fixtures.py has it in fixtures."""

import pytest
import torch


def test_copies_and_factories_are_pinned_as_on_a_device(run):
    found = {}

    def program():
        x = torch.ones(2, device="cpu", requires_grad=True)
        on_device = torch.ones(2, device="cuda")
        y = x.pin_memory()
        y.sum().backward()
        found.update(
            plain=x.is_pinned(),
            pinned=y.is_pinned(),
            view=y[1:].is_pinned(),
            clone=y.clone().is_pinned(),
            again=y.pin_memory() is y,
            grad=x.grad.tolist(),
            on_device=on_device.is_pinned(),
            waited=on_device.cpu().is_pinned(),
            empty=torch.ones(0).pin_memory().is_pinned(),
        )

    assert run(program).peak_bytes == 8  # memory of the host counts nothing
    # The answers of PyTorch's CUDA build on the null device.
    assert found == {
        **{"plain": False, "pinned": True, "view": True, "clone": False, "again": True},
        **{"grad": [1, 1], "on_device": False, "waited": False, "empty": False},
    }


def test_memory_of_the_device_cannot_be_pinned(run):
    def program():
        with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
            torch.ones(2, device="cuda").pin_memory()

    assert run(program).unmeasured is None

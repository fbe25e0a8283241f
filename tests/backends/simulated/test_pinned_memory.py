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
            like=torch.zeros_like(x, pin_memory=True).is_pinned(),
            new=x.new_ones(3, pin_memory=True).is_pinned(),
            tensor=torch.tensor([1.0], pin_memory=True).is_pinned(),
            on_device=on_device.is_pinned(),
            copied=on_device.to("cpu", non_blocking=True).is_pinned(),
            waited=on_device.cpu().is_pinned(),
            empty=torch.ones(0).pin_memory().is_pinned(),
        )

    assert run(program).peak_bytes == 8  # memory of the host counts nothing
    # The answers of PyTorch's CUDA build on the null device.
    assert found == {
        **{"plain": False, "pinned": True, "view": True, "clone": False, "again": True},
        **{"grad": [1, 1], "like": True, "new": True, "tensor": True, "on_device": False},
        **{"copied": True, "waited": False, "empty": False},
    }


def test_what_a_fixture_pinned_is_pinned_in_the_window(run):
    found = []
    run(lambda: found.append(torch.ones(2, device="cpu").pin_memory()))
    run(lambda: found.append(found[0].is_pinned()))
    assert found[1] is True


@pytest.mark.parametrize(
    ("pin", "message"),
    [
        (
            lambda: torch.ones(2, device="cuda").pin_memory(),
            r"cannot pin 'torch\.cuda\.FloatTensor' only dense CPU tensors can be pinned",
        ),
        (
            lambda: torch.ones(2, device="cuda", pin_memory=True),
            "Only dense CPU tensors can be pinned",
        ),
        (
            lambda: torch.ones_like(torch.ones(2, device="cuda"), pin_memory=True),
            "Only dense CPU tensors can be pinned",
        ),
    ],
    ids=["method", "factory", "like"],
)
def test_memory_of_the_device_cannot_be_pinned(run, pin, message):
    def program():
        with pytest.raises(RuntimeError, match=f"^{message}$"):
            pin()

    assert run(program).unmeasured is None

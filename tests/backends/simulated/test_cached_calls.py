"""Calls of operators that run again, while a gradient is recorded."""

import pytest
import torch

from pytest_attnmem.backends.simulated.cached_calls import CachedCalls

aten = torch.ops.aten


@pytest.fixture
def made_again(monkeypatch):
    """Returns the operators whose new tensor is made from the cache, in their order."""
    found = []
    make = CachedCalls._make
    monkeypatch.setattr(
        CachedCalls,
        "_make",
        lambda self, new, args: found.append(new.note.func) or make(self, new, args),
    )
    return found


def test_the_third_training_step_makes_its_tensors_from_the_cache(run, made_again):
    def losses(device):
        x = torch.arange(12.0, device=device).view(3, 4)
        w = torch.ones(4, 2, device=device, requires_grad=True)
        found = []
        for _ in range(3):
            made_again.clear()
            loss = (x @ w).exp().log().sum() * 0.5
            loss.backward()
            with torch.no_grad():
                w -= 0.01 * w.grad
            w.grad = None
            found.append(loss.item())
        return found

    expected = losses("cpu")

    def program():
        assert losses("cuda") == pytest.approx(expected)

    run(program)
    forward = [aten.mm.default, aten.exp.default, aten.log.default, aten.sum.default]
    assert made_again[:5] == [*forward, aten.mul.Tensor]
    assert made_again.count(aten.mm.default) == 2


def test_a_negative_zero_is_another_number_than_zero(run):
    def program():
        x = torch.ones(1, device="cuda", requires_grad=True)
        found = [(1 / (x * zero)).item() for zero in (0.0, 0.0, -0.0)]
        assert found == [torch.inf, torch.inf, -torch.inf]

    run(program)


def test_zeros_like_of_an_older_tensor_counts_it_as_an_input(run, made_again):
    def program():
        x = torch.ones(4, device="cuda")
        assert [torch.zeros_like(x).tolist() for _ in range(3)] == [[0.0] * 4] * 3
        x.add_(1)  # a note that kept the tensor would read this
        assert torch.zeros_like(x).tolist() == [0.0] * 4

    run(program)
    assert aten.zeros_like.default in made_again


def test_a_number_that_is_read_is_not_noted(run):
    """``_local_scalar_dense`` returns a number, and writes nothing."""

    def program():
        x = torch.ones((), device="cuda")
        mode = x.__dict__["fake_mode"]
        before = mode.values.tape._count
        assert [x.item() for _ in range(3)] == [1.0] * 3
        assert mode.values.tape._count == before

    run(program)

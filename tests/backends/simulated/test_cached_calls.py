"""Calls of operators that run again, while a gradient is recorded."""

import pytest
import torch

from pytest_attnmem.backends.simulated.cached_calls import CachedCalls
from pytest_attnmem.backends.simulated.fake_mode import SimulatedFakeMode

aten = torch.ops.aten


def heard(monkeypatch, owner, method, operator):
    """Returns the operators that the method of a class is called with, in their order."""
    found = []
    run = getattr(owner, method)
    monkeypatch.setattr(
        owner, method, lambda self, *args: found.append(operator(args[0])) or run(self, *args)
    )
    return found


@pytest.fixture
def made_again(monkeypatch):
    """Returns the operators whose new tensor is made from the cache."""
    return heard(monkeypatch, CachedCalls, "_make", lambda new: new.note.func)


@pytest.fixture
def in_general(monkeypatch):
    """Returns the operators that PyTorch's fake mode runs, which takes ten times as long."""
    return heard(monkeypatch, SimulatedFakeMode, "_run_in_general", lambda func: func)


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


def test_a_call_into_a_target_of_its_size_is_known_the_second_time(run, in_general):
    def program():
        x, out = torch.arange(4.0, device="cuda"), torch.empty(4, device="cuda")
        for number in range(3):
            x.add_(1)
            assert torch.exp(x, out=out) is out
            assert out.tolist() == pytest.approx((torch.arange(4.0) + number + 1).exp().tolist())
        other = torch.empty(4, device="cuda")
        assert torch.exp(x, out=other) is other

    run(program)
    assert in_general.count(aten.exp.out) == 1


def test_a_target_among_the_arguments_is_another_call(run, in_general):
    def program():
        x, y = torch.ones(2, 3, 3, device="cuda"), torch.ones(2, 3, 3, device="cuda")
        sums = torch.zeros(2, 3, 3, device="cuda")
        for _ in range(2):
            torch.baddbmm(sums, x, y, out=sums)
        assert sums.unique().tolist() == [6.0]
        torch.baddbmm(x, x, y, out=sums)
        assert sums.unique().tolist() == [4.0]
        with pytest.raises(RuntimeError, match="some elements of the input tensor"):
            torch.exp(x.view(18)[:9], out=x.view(18)[1:10])

    run(program)
    assert in_general.count(aten.baddbmm.out) == 2


def test_a_target_of_another_size_is_resized_each_time(run):
    def program():
        x = torch.ones(1000, device="cuda")
        for _ in range(3):
            out = torch.empty(0, device="cuda")
            before = torch.cuda.memory_allocated()
            torch.mul(x, 2, out=out)
            assert out.tolist() == [2.0] * 1000
            assert torch.cuda.memory_allocated() - before == 4096

    run(program)


def test_an_index_that_is_no_mask_has_a_result_of_known_size(run, in_general):
    def program():
        x = torch.arange(6.0, device="cuda").view(3, 2)
        for last in (1, 2):
            index = torch.tensor([0, last], device="cuda")
            assert x[index].tolist() == [[0.0, 1.0], [last * 2.0, last * 2.0 + 1]]
            assert x[:, index % 2].shape == (3, 2)
            assert x[x >= last * 2].tolist() == [float(each) for each in range(last * 2, 6)]

    run(program)
    assert in_general.count(aten.index.Tensor) == 4  # two calls, and each mask


def test_a_number_of_the_host_is_written_without_the_general_path(run, in_general):
    def program():
        x = torch.zeros(3, device="cuda")
        x[0] = 1.5
        x.add_(torch.tensor(0.5))
        assert x.tolist() == [2.0, 0.5, 0.5]
        x.copy_(torch.ones(3))  # not a number: the general path asks where it is
        assert x.tolist() == [1.0, 1.0, 1.0]

    run(program)
    assert not {aten.fill_.Tensor, aten.add_.Tensor} & {*in_general}
    assert aten.copy_.default in in_general

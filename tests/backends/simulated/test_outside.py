"""Tensors and modules from outside a window, used as if they were on the device."""

import copy

import pytest
import torch
from torch import nn

from pytest_attnmem.errors import CannotSimulate


@pytest.fixture
def backend(backends):
    backend = backends()
    backend.forget()
    return backend


def test_a_tensor_from_outside_is_on_the_device_and_not_counted(run):
    x = torch.ones(1000)

    def program():
        assert (x.device.type, x.is_cuda, x.shape) == ("cuda", True, (1000,))
        return torch.zeros(1000, device=x.device) + x

    seen = run(program)
    assert (seen.peak_bytes, seen.retained_bytes) == (8000, 4000)
    assert (x.device.type, x.sum().item()) == ("cpu", 1000)


def test_views_of_one_storage_stay_views_of_one(run):
    base = torch.zeros(4, 6)
    view = base[:, ::2]

    def program():
        assert view.untyped_storage()._cdata == base.untyped_storage()._cdata
        assert (view.shape, view.stride()) == ((4, 3), (6, 2))
        return view.t().contiguous()

    assert run(program).peak_bytes == 48


def test_an_input_freed_in_the_window_is_not_counted(run):
    held = [torch.ones(1000)]

    def program():
        a = torch.ones(10, device="cuda") + held[0].sum()
        held.clear()
        return a

    seen = run(program)
    assert seen.retained_bytes == 40


def test_a_copy_to_the_device_in_the_window_is_counted(run):
    x = torch.ones(1000)
    assert run(lambda: x.cuda()).peak_bytes == 4000
    assert run(lambda: x.to("cuda", torch.float16)).peak_bytes == 2000
    assert run(lambda: (x * 1).cuda()).peak_bytes == 4000


def test_a_leaf_has_its_gradient_after_the_window(run):
    x = torch.ones(1000, requires_grad=True)

    def program():
        (x * 2).sum().backward()
        assert x.grad.shape == (1000,)

    assert run(program).retained_bytes == 4000
    assert (x.grad.device.type, x.grad.sum().item()) == ("cpu", 2000)


def test_a_number_from_outside_keeps_its_value(run):
    scale = torch.tensor(0.5)

    def program():
        assert scale.item() == 0.5
        return torch.ones(10, device="cuda") * scale

    assert run(program).peak_bytes == 80


def test_a_module_from_outside_is_trained_on_the_host_after_the_window(run):
    torch.manual_seed(0)
    layer = nn.Linear(16, 16)
    other, before = copy.deepcopy(layer), [*layer.parameters()]

    def program(layer=layer):
        optimizer = torch.optim.AdamW(layer.parameters())
        layer(torch.ones(4, 16)).sum().backward()
        optimizer.step()

    seen = run(program)
    program(other)
    parameters = 16 * 16 * 4 + 16 * 4
    assert seen.retained_bytes == parameters  # gradients; the optimizer is gone
    for now, one, expected in zip(layer.parameters(), before, other.parameters(), strict=True):
        assert now is one
        torch.testing.assert_close((now, now.grad), (expected, expected.grad))


def test_moving_a_module_in_the_window_counts_its_parameters(run):
    layer = nn.Linear(16, 16)
    assert run(layer.cuda).retained_bytes == 16 * 16 * 4 + 16 * 4
    assert run(layer.half).retained_bytes == (16 * 16 * 4 + 16 * 4) // 2


def test_an_optimizers_state_from_outside_is_an_input(run):
    layer = nn.Linear(16, 16)
    optimizer = torch.optim.Adam(layer.parameters(), foreach=False)
    layer(torch.ones(4, 16)).sum().backward()
    optimizer.step()
    seen = run(optimizer.step)
    assert seen.retained_bytes == 0
    assert seen.peak_bytes > 0
    assert optimizer.state[layer.weight]["step"].item() == 2


def test_a_custom_autograd_function_takes_tensors_from_outside(run):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    x = torch.ones(1000, requires_grad=True)

    def program():
        Twice.apply(x).sum().backward()

    assert run(program).retained_bytes == 4000


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (
            lambda: torch.ones(2, 3, requires_grad=True) * 2,
            "a tensor [2, 3] float32 from outside the window has a history (MulBackward0), which"
            " cannot be simulated; compute it inside, or detach it",
        ),
        (
            lambda: torch.ones(2).to_sparse(),
            "a sparse_coo tensor from outside the window cannot be simulated; use backend='null' or"
            " 'cuda'",
        ),
    ],
    ids=["history", "sparse"],
)
def test_a_tensor_that_cannot_be_simulated_is_refused_by_name(run, make, refusal):
    x = make()

    def program():
        with pytest.raises(CannotSimulate) as refused:
            torch.add(x, 1)
        assert str(refused.value) == refusal

    assert run(program).unmeasured == refusal


def test_a_tensor_of_another_simulated_device_is_an_input(backends, run):
    with backends("H100").world():
        x = torch.ones(1000, device="cuda")
    assert run(lambda: x + 1, "T4").peak_bytes == 4000


def test_a_tensor_from_before_a_restart_is_an_input(backend, run):
    with backend.world():
        x = torch.ones(1000, device="cuda")
    assert run(lambda: x + 1).peak_bytes == 4000
    assert run(lambda: x.add_(1)).peak_bytes == 0
    assert run(lambda: torch.ops.aten._unsafe_view(x, [10, 100])).peak_bytes == 0

"""Operators of a program that are Python code: it runs on the simulated device."""

import pytest
import torch


@torch.library.custom_op("attnmemtest::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    scratch = x * 2
    return scratch.clone()


@torch.library.custom_op("attnmemtest::described", mutates_args=())
def described(x: torch.Tensor) -> torch.Tensor:
    scratch = torch.zeros(2000, device="cuda")
    return x + scratch.sum()


@described.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("attnmemtest::by_numpy", mutates_args=())
def by_numpy(x: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.from_numpy(x.cpu().numpy() * factor).to(x.device)


@torch.library.custom_op("attnmemtest::double_", mutates_args={"x"})
def double_(x: torch.Tensor) -> None:
    x.mul_(2)


@torch.library.custom_op("attnmemtest::sine", mutates_args=())
def sine(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


torch.library.register_autograd(
    sine,
    lambda ctx, gradient: gradient * ctx.saved_tensors[0].cos(),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)
LIBRARY = torch.library.Library("attnmemtest", "FRAGMENT")
LIBRARY.define("thrice(Tensor x) -> Tensor")
for key in ("CPU", "CUDA"):
    LIBRARY.impl("thrice", lambda x: x * 3, key)

CALLS = {
    "no fake": (twice, 2, 12_000),
    "fake": (described, 1, 4000 + 8000 + 4 + 4000),
    "numpy": (lambda x: by_numpy(x, 5.0), 5, 8004),
    "library": (lambda x: torch.ops.attnmemtest.thrice(x), 3, 8004),
}


@pytest.mark.parametrize("call", CALLS)
def test_it_allocates_what_its_code_does(run, call):
    function, factor, peak = CALLS[call]

    def program():
        x = torch.ones(1000, device="cuda")
        y = function(x)
        assert y.sum().item() == 1000 * factor
        return y

    found = run(program)
    assert found.unmeasured is None
    assert found.peak_bytes == peak


def test_in_place_and_differentiable(run):
    def program():
        x = torch.ones(1000, device="cuda", requires_grad=True)
        sine(x).sum().backward()
        assert torch.equal(x.grad, x.detach().cos())
        double_(x.detach())
        assert x.sum().item() == 2000

    assert run(program).unmeasured is None


def test_on_the_host(run):
    def program():
        torch.empty(0, device="cuda")  # names the device
        x = torch.ones(1000)
        return [op(x) for op in (twice, torch.ops.attnmemtest.thrice)]

    assert run(program).peak_bytes == 0

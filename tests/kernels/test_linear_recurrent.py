"""Linear attention by steps: a state that does not grow, and nothing kept of it."""

from __future__ import annotations

import pytest
import torch

from pytest_attnmem.kernels import KERNELS
from pytest_attnmem.kernels.linear_recurrent import attention

from .references import linear_reference


@pytest.fixture
def kernel():
    return next(kernel for kernel in KERNELS if kernel.name == "linear-recurrent")


def test_what_comes_later_is_not_seen(inputs):
    q, k, v = inputs((2, 3, 9, 9, 4, 5))
    out = attention(q, k, v)
    k[:, :, 5:], v[:, :, 5:] = torch.nan, torch.nan
    assert torch.equal(attention(q, k, v)[:, :, :5], out[:, :, :5])


@pytest.mark.parametrize("eps", [1e-6, 0.5])
@pytest.mark.parametrize("M", [4, 9, 12])
def test_eps_and_lengths_that_differ(M, eps, inputs):
    tensors = inputs((1, 2, 9, M, 4, 5), requires_grad=True)
    expected = linear_reference(*(tensor.detach() for tensor in tensors), True, eps)
    out = attention(*tensors, eps=eps)
    assert (out.detach() - torch.as_tensor(expected)).abs().max() <= 1e-14
    # Keys past N change nothing, and have no gradient.
    out.sum().backward()
    assert all(tensor.grad[:, :, 9:].eq(0).all() for tensor in tensors)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_inputs_are_rounded_once(dtype, inputs):
    q, k, v = inputs((1, 1, 300, 300, 400, 8), dtype)  # sums of weights to 120 000 and more
    exact = torch.as_tensor(linear_reference(q.double(), k.double(), v.double(), True))
    rounding = torch.finfo(dtype).eps / 2
    error = (attention(q, k, v).double() - exact).abs()
    assert (error <= rounding * exact.abs() + 1e-6).all()


def test_both_directions_are_another_kernel(inputs):
    with pytest.raises(
        ValueError, match=r"^causal must be True in linear-recurrent, got False; linear is the one$"
    ):
        attention(*inputs((1, 1, 4, 4, 2, 2)), causal=False)

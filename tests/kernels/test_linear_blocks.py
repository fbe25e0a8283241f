"""Linear attention by chunks and as a scan: blocks that do and do not divide the length."""

from __future__ import annotations

import re

import pytest
import torch

from pytest_attnmem.kernels import KERNELS, linear_chunked, linear_scan

from .references import linear_reference

#: Against N = 33: one row, sizes that do and do not divide it, all of it, and more.
BLOCKS = [1, 7, 8, 11, 33, 64]
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
MODULES = {"linear-chunked": linear_chunked, "linear-scan": linear_scan}


@pytest.fixture(params=MODULES)
def kernel(request):
    return next(kernel for kernel in KERNELS if kernel.name == request.param)


@pytest.fixture
def attention(kernel):
    return kernel.attention


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("M", [10, 33, 50])
def test_chunks_change_nothing(block, M, attention, inputs):
    tensors = inputs((2, 2, 33, M, 8, 4), requires_grad=True)
    out = attention(*tensors, block=block)
    expected = linear_reference(*(tensor.detach() for tensor in tensors), True)
    assert (out.detach() - torch.as_tensor(expected)).abs().max() <= 1e-13

    def gradients(block):
        return torch.autograd.grad(attention(*tensors, block=block).square().sum(), tensors)

    for got, other in zip(gradients(block), gradients(100), strict=True):
        assert (got - other).abs().max() <= 1e-12


@pytest.mark.parametrize("M", [3, 5, 7])
def test_gradcheck_over_chunks(M, attention, inputs):
    tensors = inputs((1, 2, 5, M, 2, 3), requires_grad=True)
    assert torch.autograd.gradcheck(lambda *qkv: attention(*qkv, eps=0.3, block=2), tensors)


def test_what_comes_later_is_not_seen(attention, inputs):
    q, k, v = inputs((2, 3, 9, 9, 4, 5))
    out = attention(q, k, v, block=4)
    k[:, :, 5:], v[:, :, 5:] = 9, 9
    assert torch.equal(attention(q, k, v, block=4)[:, :, :5], out[:, :, :5])


@pytest.mark.parametrize("eps", [1e-6, 0.5])
def test_eps_is_added_to_the_sum_of_weights(eps, attention, inputs):
    q, k, v = inputs((2, 3, 9, 7, 4, 5))
    expected = torch.as_tensor(linear_reference(q, k, v, True, eps))
    assert (attention(q, k, v, eps=eps, block=4) - expected).abs().max() <= 1e-14


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_inputs_are_rounded_once(dtype, attention, inputs):
    q, k, v = inputs((1, 1, 2000, 2000, 48, 8), dtype)  # sums of weights to 96 000 and more
    exact = torch.as_tensor(linear_reference(q.double(), k.double(), v.double(), True))
    rounding = torch.finfo(dtype).eps / 2
    error = (attention(q, k, v).double() - exact).abs()
    assert (error <= rounding * exact.abs() + 1e-6).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"causal": False}, "causal must be True in {}, got False; linear is the one")],
)
def test_options_that_do_not_fit(options, message, kernel, inputs):
    with pytest.raises(ValueError, match=f"^{re.escape(message.format(kernel.name))}$"):
        kernel.attention(*inputs((1, 1, 3, 3, 2, 2)), **options)


@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("block", BLOCKS[::2])
@pytest.mark.parametrize("M", [10, 50])
def test_the_model_over_chunks(M, block, dtype, training, inputs, as_modelled):
    tensors = inputs((2, 2, 33, M, 8, 12), dtype)
    # Half types too: their products are done in float32.
    as_modelled(training, tensors, block=block)

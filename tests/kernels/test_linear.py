"""Linear attention in all its forms: what is seen, how sums are rounded, and what that costs."""

from __future__ import annotations

import re

import pytest
import torch

from pytest_attnmem.kernels import KERNELS, linear, linear_causal
from pytest_attnmem.kernels.linear_scan import _scan

from .references import BOTH, Calls, linear_reference, over

LINEAR = [kernel for kernel in KERNELS if not kernel.softmax]
#: Of the kernels that take blocks, one that does not divide the lengths below.
SHORT = {"linear-chunked": {"block": 4}, "linear-scan": {"block": 4}}
#: Against N = 33: one row, sizes that do and do not divide it, all of it, and more.
BLOCKS = [1, 7, 8, 11, 33, 64]
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def named(*names):
    return over([kernel for kernel in LINEAR if kernel.name in names])


IN_BLOCKS = named(*SHORT)


def test_the_order_of_keys_does_not_matter(inputs):
    q, k, v = inputs((2, 3, 9, 7, 4, 5))
    order = torch.randperm(7)
    out = linear.attention(q, k, v)
    assert (linear.attention(q, k[:, :, order], v[:, :, order]) - out).abs().max() <= 1e-14


@over([kernel for kernel in LINEAR if kernel.always_causal])
def test_what_comes_later_is_not_seen(kernel, inputs):
    q, k, v = inputs((2, 3, 9, 9, 4, 5))
    options = SHORT.get(kernel.name, {})
    out = kernel.attention(q, k, v, **options)
    k[:, :, 5:] = v[:, :, 5:] = 9 if options else torch.nan  # within a block, 0 * NaN is NaN
    assert torch.equal(kernel.attention(q, k, v, **options)[:, :, :5], out[:, :, :5])


@over(LINEAR)
@pytest.mark.parametrize("eps", [1e-6, 0.5])
@pytest.mark.parametrize("M", [4, 7, 9, 12])
def test_eps_and_lengths_that_differ(kernel, M, eps, inputs):
    tensors = inputs((2, 3, 9, M, 4, 5), requires_grad=True)
    expected = linear_reference(*(x.detach() for x in tensors), kernel.always_causal, eps)
    out = kernel.attention(*tensors, eps=eps, **SHORT.get(kernel.name, {}))
    assert (out.detach() - torch.as_tensor(expected)).abs().max() <= 1e-14
    out.sum().backward()
    if kernel.always_causal:  # keys past N change nothing, and have no gradient
        assert all(tensor.grad[:, :, 9:].eq(0).all() for tensor in tensors)


def test_features_of_nothing_give_zeros(inputs):
    q, k, v = inputs((1, 1, 4, 4, 2, 2))
    out = linear.attention(q, torch.full_like(k, -torch.inf), v)
    assert out.eq(0).all()


@over(LINEAR)
def test_the_other_direction_is_another_kernel(kernel, inputs):
    (known,) = kernel.causal
    other = "linear" if known else "linear-causal"
    message = f"causal must be {known} in {kernel.name}, got {not known}; {other} is the one"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        kernel.attention(*inputs((1, 1, 4, 4, 2, 2)), causal=not known)


@named("linear-chunked", "linear-scan", "linear-recurrent")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_inputs_are_rounded_once(kernel, dtype, inputs):
    # Sums of weights to 96 000 and more; a step for each position takes long.
    N, d = (300, 400) if kernel.name == "linear-recurrent" else (2000, 48)
    q, k, v = inputs((1, 1, N, N, d, 8), dtype)
    exact = torch.as_tensor(linear_reference(q.double(), k.double(), v.double(), True))
    rounding = torch.finfo(dtype).eps / 2
    error = (kernel.attention(q, k, v).double() - exact).abs()
    assert (error <= rounding * exact.abs() + 1e-6).all()


@IN_BLOCKS
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("M", [10, 33, 50])
def test_blocks_change_nothing(kernel, block, M, inputs):
    tensors = inputs((2, 2, 33, M, 8, 4), requires_grad=True)
    out = kernel.attention(*tensors, block=block)
    expected = linear_reference(*(tensor.detach() for tensor in tensors), True)
    assert (out.detach() - torch.as_tensor(expected)).abs().max() <= 1e-13

    def gradients(block):
        out = kernel.attention(*tensors, block=block)
        return torch.autograd.grad(out.square().sum(), tensors)

    for got, other in zip(gradients(block), gradients(100), strict=True):
        assert (got - other).abs().max() <= 1e-12


@IN_BLOCKS
@pytest.mark.parametrize("M", [3, 5, 7])
def test_gradcheck_over_blocks(kernel, M, inputs):
    tensors = inputs((1, 2, 5, M, 2, 3), requires_grad=True)
    assert torch.autograd.gradcheck(lambda *qkv: kernel.attention(*qkv, eps=0.3, block=2), tensors)


@BOTH
@IN_BLOCKS
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("block", BLOCKS[::2])
@pytest.mark.parametrize("M", [10, 50])
def test_the_model_over_blocks(kernel, M, block, dtype, training, inputs, as_modelled):
    tensors = inputs((2, 2, 33, M, 8, 12), dtype)
    # Half types too: their products are done in float32.
    as_modelled(kernel, training, tensors, block=block)


@BOTH
@named("linear-chunked", "linear-recurrent")
def test_memory_grows_with_the_output_alone(kernel, training, inputs, peak):
    options = {"block": 16} if kernel.name == "linear-chunked" else {}

    def at(N):
        tensors = inputs((1, 2, N, N, 8, 8), torch.float32, requires_grad=training)
        if training:
            return peak(lambda: kernel.attention(*tensors, **options).sum().backward())
        return peak(lambda: kernel.attention(*tensors, **options))

    first, second, third = at(64), at(128), at(192)
    a_row = 4 * 2 * (8 + 1)  # of the output and the sums of weights
    gradients = 4 * 2 * (8 + 8 + 8) if training else 0
    assert second - first == third - second == 64 * (a_row + gradients)


def test_cumulative_sums_keep_a_state_for_every_position(inputs, peak):
    B, H, N, d, dv = 1, 2, 64, 16, 16
    tensors = inputs((B, H, N, N, d, dv), torch.float32)
    states = B * H * N * d * dv * 4
    assert states < peak(lambda: linear_causal.attention(*tensors)) < 2 * states


@pytest.mark.parametrize("reverse", [False, True], ids=["prefix", "suffix"])
@pytest.mark.parametrize("count", [*range(1, 18), 31, 32, 33, 100])
def test_the_scan_is_a_cumulative_sum(count, reverse):
    x = torch.arange(2 * count).view(count, 2)
    expected = x.flip(0).cumsum(0).flip(0) if reverse else x.cumsum(0)
    _scan(x, range(count)[::-1] if reverse else range(count))
    assert torch.equal(x, expected)


@pytest.mark.parametrize(("count", "depth"), [(1, 0), (2, 1), (3, 2), (64, 11), (1000, 18)])
def test_the_scan_is_of_logarithmic_depth(count, depth):
    with Calls(torch.ops.aten.add_.Tensor) as additions:
        _scan(torch.ones(count, 1), range(count))
    assert additions.count == depth

"""Standard attention: its weights, and the budget that one writes for it on a whiteboard."""

from __future__ import annotations

import pytest
import torch

from pytest_attnmem.formulas.formula import parse_formula
from pytest_attnmem.kernels.reference import standard_attention
from pytest_attnmem.kernels.standard import MODEL, attention
from pytest_attnmem.symbols.attention_shape import Source, gather

WHITEBOARD = "2*B*H*N*N*itemsize + B*H*N*d*itemsize"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("B", "H", "N", "d"), [(1, 1, 2, 1), (2, 4, 128, 32), (1, 3, 77, 5)])
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"return_weights": True}], ids=str)
def test_the_whiteboard_is_right_to_the_byte(B, H, N, d, dtype, options, inputs, peak, cpu):
    q, k, v = inputs((B, H, N, N, d, d), dtype)
    symbols = {"B": B, "H": H, "N": N, "d": d, "itemsize": dtype.itemsize}
    expected = parse_formula(WHITEBOARD).evaluate(symbols)
    assert peak(lambda: attention(q, k, v, **options)) == expected
    shape = gather([Source("the test", symbols)])
    assert MODEL.forward.peak(shape) == MODEL.forward.peak(shape, cpu.kinds) == expected
    assert MODEL.forward.high_water(shape) == "out = weights @ v"


def test_a_mask_costs_nothing_at_the_peak(inputs, peak):
    q, k, v = inputs((2, 4, 64, 64, 8, 8), torch.float32)
    mask = torch.ones(2, 4, 64, 64, dtype=torch.bool).tril()
    assert peak(lambda: attention(q, k, v, mask=mask)) == peak(lambda: attention(q, k, v))


def test_causal_and_mask_together(inputs):
    tensors = inputs((2, 3, 20, 30, 8, 4))
    mask = torch.rand(20, 30, generator=torch.Generator().manual_seed(0)) > 0.3
    mask[0] = False
    out = attention(*tensors, causal=True, mask=mask)
    expected, _ = standard_attention(*tensors, mask, causal=True)
    assert (out - torch.as_tensor(expected)).abs().max() <= 1e-13
    assert out[:, :, 0].eq(0).all()


@pytest.mark.parametrize("masked", [False, True])
def test_weights_are_returned_on_request(inputs, masked):
    tensors = inputs((2, 3, 5, 7, 8, 4), requires_grad=True)
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[2] = False
    out, weights = attention(*tensors, mask=mask if masked else None, return_weights=True)
    arrays = [tensor.detach().numpy() for tensor in tensors]
    expected = standard_attention(*arrays, mask.numpy() if masked else None)
    for got, want in zip((out, weights), expected, strict=True):
        assert (got.detach() - torch.as_tensor(want)).abs().max() <= 1e-13
    assert weights[:, :, 2].eq(0).all() == masked
    weights.sum().backward()  # each row sums to a constant
    assert tensors[0].grad.abs().max() <= 1e-13


def test_gradients_of_blind_queries_pass_gradcheck(inputs):
    tensors = inputs((1, 1, 3, 4, 2, 2), requires_grad=True)
    mask = torch.ones(3, 4, dtype=torch.bool)
    mask[1] = False
    assert torch.autograd.gradcheck(lambda *qkv: attention(*qkv, mask=mask), tensors)
    bias = torch.randn(4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda bias, *qkv: attention(*qkv, mask=bias), (bias, *tensors))


def test_the_callers_mask_is_left_alone(inputs):
    q, k, v = inputs((1, 1, 3, 4, 2, 2))
    for mask in (torch.eye(3, 4, dtype=torch.bool), torch.eye(3, 4, dtype=torch.float64)):
        before = mask.clone()
        attention(q, k, v, causal=True, mask=mask)
        assert torch.equal(mask, before)

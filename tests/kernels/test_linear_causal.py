"""Causal linear attention by cumulative sums: what is seen, and what that costs."""

import pytest
import torch

from pytest_attnmem.kernels import linear_causal

from .references import linear_reference


def test_what_comes_later_is_not_seen(inputs):
    q, k, v = inputs((2, 3, 9, 9, 4, 5))
    out = linear_causal.attention(q, k, v)
    k[:, :, 5:], v[:, :, 5:] = torch.nan, torch.nan
    assert torch.equal(linear_causal.attention(q, k, v)[:, :, :5], out[:, :, :5])


@pytest.mark.parametrize("eps", [1e-6, 0.5])
@pytest.mark.parametrize("M", [4, 9, 12])
def test_eps_and_lengths_that_differ(M, eps, inputs):
    q, k, v = inputs((2, 3, 9, M, 4, 5))
    expected = torch.as_tensor(linear_reference(q, k, v, True, eps))
    assert (linear_causal.attention(q, k, v, eps=eps) - expected).abs().max() <= 1e-14


def test_both_directions_are_another_kernel(inputs):
    with pytest.raises(ValueError, match=r"^causal must be True in linear-causal, got False; lin"):
        linear_causal.attention(*inputs((1, 1, 4, 4, 2, 2)), causal=False)


def test_it_keeps_a_state_for_every_position(inputs, peak):
    B, H, N, d, dv = 1, 2, 64, 16, 16
    tensors = inputs((B, H, N, N, d, dv), torch.float32)
    states = B * H * N * d * dv * 4
    assert states < peak(lambda: linear_causal.attention(*tensors)) < 2 * states

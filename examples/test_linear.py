"""The dilemma of causal linear attention: a cumulative sum keeps a state for every position."""

import pytest
import torch

from pytest_attnmem.kernels import linear, linear_causal, standard


@pytest.mark.memory_budget(linear.MODEL.forward, exact=True)
@pytest.mark.parametrize("N", [4096, 16384])
def test_both_directions_need_one_state(qkv, N):
    with torch.no_grad():
        linear.attention(*qkv(B=1, H=8, N=N, d=64))


@pytest.mark.memory_budget(linear_causal.MODEL.forward, exact=True)
def test_causal_needs_a_state_for_every_position(qkv):
    with torch.no_grad():
        linear_causal.attention(*qkv(B=1, H=8, N=1024, d=64))


def test_below_d_squared_positions_it_needs_more_than_softmax(attnmem, qkv):
    q, k, v = qkv(B=1, H=4, N=1024, d=64)
    with torch.no_grad():
        attnmem.compare(
            lambda: standard.attention(q, k, v, causal=True),
            lambda: linear_causal.attention(q, k, v),
            max_ratio=1,
        )

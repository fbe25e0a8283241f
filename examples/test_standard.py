"""A budget is the formula that you would write on a whiteboard, and is exact to the byte."""

import pytest
import torch

from pytest_attnmem.kernels import standard


@pytest.mark.memory_budget("2*B*H*N*N*itemsize + B*H*N*d*itemsize", exact=True)
@pytest.mark.parametrize("N", [512, 1024, 2048, 4096])
def test_forward_holds_two_score_matrices(qkv, N):
    with torch.no_grad():
        standard.attention(*qkv(B=1, H=8, N=N, d=64))


@pytest.mark.memory_budget(standard.MODEL.training, exact=True)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_training_needs_what_the_model_says(qkv, causal):
    q, k, v = qkv(B=1, H=8, N=2048, d=64, requires_grad=True)
    standard.attention(q, k, v, causal=causal).sum().backward()


@pytest.mark.memory_budget({"cuda": "2 GiB", "default": "1 GiB"})
def test_a_plain_size_will_do(qkv):
    with torch.no_grad():
        standard.attention(*qkv(B=1, H=8, N=2048, d=64), causal=True)

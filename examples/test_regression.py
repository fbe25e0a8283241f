"""A budget catches a regression that no output shows: huggingface/transformers#29484, in small.

A causal mask was copied for every element of the batch, although a view was enough. Every output
stayed the same, but memory grew by one mask per element. The budget allows one mask of N·N
elements.
"""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

BUDGET = "N*N + N*N*itemsize + 2*B*H*N*d*itemsize + 16 MiB"


def attention(q, k, v, repeat):
    B, H, N, _ = q.shape
    visible = torch.ones(N, N, dtype=torch.bool).tril_()
    bias = torch.zeros(N, N, dtype=q.dtype).masked_fill_(~visible, -torch.inf)
    bias = bias.repeat(B, H, 1, 1) if repeat else bias.expand(B, H, N, N)
    return scaled_dot_product_attention(q, k, v, attn_mask=bias)


@pytest.mark.memory_budget(BUDGET)
def test_the_mask_is_a_view(qkv):
    with torch.no_grad():
        attention(*qkv(B=4, H=4, N=1024, d=64), repeat=False)


@pytest.mark.xfail(strict=True, reason="the regression, kept to show that it is caught")
@pytest.mark.memory_budget(BUDGET)
def test_the_mask_is_repeated(qkv):
    with torch.no_grad():
        attention(*qkv(B=4, H=4, N=1024, d=64), repeat=True)

"""A regression that no output shows, caught: huggingface/transformers#29484, in small.

A causal mask was repeated over the batch where a view would have done. Every output stayed the
same; memory grew by a mask for each element of the batch. The budget says that the mask costs
N·N elements, once.
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

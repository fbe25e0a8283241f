"""A key padding mask of one row becomes one of all positions: fused attention is quadratic.

Source: x-transformers 2.26.4 at 9252ed7 (MIT, Phil Wang), ``Attend.flash_attn`` in ``attend.py``:
the mask ``[B, 1, 1, N]`` is expanded to ``[B, H, N, N]``, and joined with a causal mask of bools.
``masked()`` says the same in a few lines of our own. ``lengths()`` is what a caller can do today: a
batch that is padded at the end needs no mask, because a causal query never sees a later key.
"""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from pytest_attnmem import BudgetExceeded

DEVICE = "simulated:A100-80GB"


def masked(q, k, v, keys):
    """Returns causal attention to the keys that are not padding; keys is bool [B, N]."""
    B, H, N, _ = q.shape
    past = torch.ones(N, N, dtype=torch.bool, device=q.device).tril()
    mask = keys[:, None, None, :].expand(B, H, N, N) & past
    unseen = ~mask.any(dim=-1)
    out = scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return out.masked_fill(unseen[..., None], 0.0)


def lengths(q, k, v, keys):
    """Returns the same for padding at the end, without a mask."""
    out = scaled_dot_product_attention(q, k, v, is_causal=True)
    return out.masked_fill(~keys[:, None, :, None], 0.0)


def padded(q):
    """Returns the mask of a batch whose last eighth is padding: bool [B, N]."""
    keys = torch.ones(q.shape[0], q.shape[2], dtype=torch.bool, device=q.device)
    keys[:, -q.shape[2] // 8 :] = False
    return keys


@pytest.mark.xfail(strict=True, raises=BudgetExceeded, reason="the mask has N*N elements")
@pytest.mark.memory_budget("O(N*d)", backend=DEVICE)
@pytest.mark.parametrize("N", [4096])
def test_with_a_mask(qkv, N):
    q, k, v = qkv(B=1, H=8, N=N, d=64)
    masked(q, k, v, padded(q))


@pytest.mark.memory_budget("O(N*d)", backend=DEVICE)
@pytest.mark.parametrize("N", [4096])
def test_without_a_mask(qkv, N):
    q, k, v = qkv(B=1, H=8, N=N, d=64)
    lengths(q, k, v, padded(q))


@pytest.mark.parametrize("N", [64])
def test_both_give_the_same(qkv, N):
    q, k, v = qkv(B=2, H=4, N=N, d=16)
    keys = padded(q)
    rows = keys[:, None, :, None]
    torch.testing.assert_close(masked(q, k, v, keys) * rows, lengths(q, k, v, keys))

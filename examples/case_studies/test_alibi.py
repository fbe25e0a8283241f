"""ALiBi makes fused attention quadratic, and a padding by nothing copies its bias.

Source: x-transformers (MIT, Phil Wang). Its fused attention takes ALiBi as a bias of all pairs of
positions, which ``AlibiPositionalBias`` keeps for the next call. Commit 516c4af (2026-04-14)
replaced the library's own ``pad_at_dim``, which returned the tensor if there was nothing to add, by
the one of ``torch_einops_utils``, which does not look: ``F.pad`` by (0, 0) returns a copy. The
outputs are equal. These are a few lines of our own that do the same.
"""

import pytest
import torch
from torch.nn.functional import pad, scaled_dot_product_attention

from pytest_attnmem import BudgetExceeded

DEVICE = "simulated:A100-80GB"
#: The bias, the masked bias, the distances, the mask of the future, and the output.
BUDGET = "2*H*N*N*itemsize + N*N*itemsize + N*N + B*H*N*d*itemsize + 8 KiB"


def padded_before(bias, keys):
    """Returns the bias with zeros for more keys; itself if there are none."""
    return bias if keys == 0 else pad(bias, (keys, 0))


def padded_after(bias, keys):
    """Returns the same, as a copy even if there are none."""
    return pad(bias, (keys, 0))


class Alibi(torch.nn.Module):
    """Causal attention with a bias: the distance of two positions, times a slope for each head."""

    def __init__(self, heads, padded):
        super().__init__()
        self.slopes = 2.0 ** (-8 * torch.arange(1.0, heads + 1) / heads)
        self.padded, self.kept = padded, None

    def forward(self, q, k, v):
        if self.kept is None:
            places = torch.arange(q.shape[-2], device=q.device, dtype=q.dtype)
            distances = (places[None, :] - places[:, None]).abs_().neg_()
            self.kept = distances * self.slopes.to(q.device)[:, None, None]
        bias = self.padded(self.kept, 0)
        future = torch.ones(bias.shape[1:], dtype=torch.bool, device=q.device).triu_(1)
        masked = bias.masked_fill(future, torch.finfo(q.dtype).min / 2)
        return scaled_dot_product_attention(q, k, v, attn_mask=masked)


@pytest.mark.memory_budget(BUDGET, backend=DEVICE)
def test_before(qkv):
    Alibi(4, padded_before)(*qkv(B=1, H=4, N=1024, d=64))


@pytest.mark.xfail(strict=True, raises=BudgetExceeded, reason="one more bias is alive")
@pytest.mark.memory_budget(BUDGET, backend=DEVICE)
def test_after(qkv):
    Alibi(4, padded_after)(*qkv(B=1, H=4, N=1024, d=64))


@pytest.mark.xfail(strict=True, raises=BudgetExceeded, reason="the bias has H*N*N elements")
@pytest.mark.memory_budget("O(N*d)", backend=DEVICE)
@pytest.mark.parametrize("N", [4096])
def test_linear(qkv, N):
    Alibi(4, padded_before)(*qkv(B=1, H=4, N=N, d=64))


def test_both_give_the_same(qkv):
    q, k, v = qkv(B=1, H=4, N=128, d=64)
    assert torch.equal(Alibi(4, padded_before)(q, k, v), Alibi(4, padded_after)(q, k, v))

"""Linear attention that is causal needs, in training, a state for every position.

Source: performer-pytorch at fc8b784 (MIT, Phil Wang), ``causal_linear_attention_noncuda``, the form
without the CUDA extension: it makes the state [m, d] of each position, chunk by chunk, and autograd
keeps all of them. These are a few lines of our own that do the same, with m = d features.
"""

import pytest
import torch

from pytest_attnmem.kernels import linear_chunked

DEVICE = "simulated:A100-80GB"
CHUNKS, EPS = 128, 1e-6


def causal(q, k, v):
    """Returns linear attention of each position to the positions up to it: [B, H, N, d]."""
    keys, state, outs = 0.0, 0.0, []
    for q_part, k_part, v_part in zip(*(t.chunk(CHUNKS, dim=-2) for t in (q, k, v)), strict=True):
        key_sums = keys + k_part.cumsum(dim=-2)
        states = state + torch.einsum("bhnm,bhnd->bhnmd", k_part, v_part).cumsum(dim=-3)
        weighted = torch.einsum("bhnm,bhnmd->bhnd", q_part, states)
        scale = torch.einsum("bhnm,bhnm->bhn", q_part, key_sums + EPS)
        outs.append(weighted / scale[..., None])
        keys, state = key_sums[..., -1:, :], states[..., -1:, :, :]
    return torch.cat(outs, dim=-2)


def both_ways(q, k, v):
    """Returns linear attention of each position to all positions: one state [m, d]."""
    scale = q @ (k.sum(dim=-2)[..., None] + EPS)
    return q @ (k.mT @ v) / scale


def plain(q, k, v):
    """Returns causal softmax attention, with all scores."""
    later = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu_(1)
    scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(later, float("-inf"))
    return scores.softmax(dim=-1) @ v


def one_state_a_chunk(q, k, v):
    """Returns causal linear attention by the bundled kernel, which keeps a state for each chunk."""
    return linear_chunked.attention(q, k, v, causal=True)


#: MiB at N = 1024 and N = 4096, rounded down.
PEAKS = {
    causal: {1024: 140, 4096: 560},
    both_ways: {1024: 10, 4096: 40},
    plain: {1024: 131, 4096: 2072},
    one_state_a_chunk: {1024: 8, 4096: 33},
}


@pytest.mark.parametrize("N", [1024, 4096])
@pytest.mark.parametrize("attention", PEAKS, ids=lambda attention: attention.__name__)
def test_it(attnmem, qkv, attention, N):
    inputs = qkv(B=1, H=8, N=N, d=64, requires_grad=True)
    with attnmem.region("training", backend=DEVICE) as region:
        attention(*inputs).sum().backward()
    assert region.measurement.peak_bytes // 2**20 == PEAKS[attention][N]


def test_it_attends_as_it_says(qkv):
    q, k, v = (t.exp() for t in qkv(B=1, H=2, N=256, d=16))
    last = both_ways(q, k, v)[:, :, -1]
    torch.testing.assert_close(causal(q, k, v)[:, :, -1], last)

"""Memory-efficient attention with a mask of floats for all pairs of positions.

Source: memory-efficient-attention-pytorch (MIT, Phil Wang). Commit 9bce9f8 (2022-03-04, "fix causal
mask leading to high mem consumption for 65536 length") makes the causal mask of bools from the
start; before, it was made of floats and converted. Commit 4be8244 (2022-03-20) makes the part of
the mask that a chunk needs. These are a few lines of our own that do the same, in three steps.
"""

import math

import pytest
import torch

from pytest_attnmem import BudgetExceeded

DEVICE = "simulated:A100-80GB"
ROWS = 512


def mask_of_floats(N, device):
    """Returns the bool mask [N, N] of later positions, as before 9bce9f8: from two of floats."""
    whole = torch.ones(N, N, device=device).triu(1).bool()
    return lambda start: whole[start : start + ROWS]


def mask_of_bools(N, device):
    """Returns the same mask, as in 9bce9f8."""
    whole = torch.ones(N, N, device=device, dtype=torch.bool).triu(1)
    return lambda start: whole[start : start + ROWS]


def mask_of_a_chunk(N, device):
    """Returns the rows of the mask that a chunk needs, as in 4be8244."""
    return lambda start: torch.ones(ROWS, N, device=device, dtype=torch.bool).triu(start + 1)


def attention(q, k, v, mask):
    """Returns causal attention [B, H, N, d], by chunks of queries."""
    N = q.shape[-2]
    later, out = mask(N, q.device), torch.empty_like(q)
    for start in range(0, N, ROWS):
        scores = q[:, :, start : start + ROWS] @ k.mT * q.shape[-1] ** -0.5
        scores = scores.masked_fill_(later(start), -math.inf)
        out[:, :, start : start + ROWS] = scores.softmax(dim=-1) @ v
    return out


#: MiB at N = 4096, one head: two masks of floats; a mask of bools and a chunk; a chunk alone.
PEAKS = {mask_of_floats: 128, mask_of_bools: 41, mask_of_a_chunk: 25}


@pytest.mark.parametrize("mask", PEAKS, ids=lambda mask: mask.__name__)
def test_the_peak(attnmem, qkv, mask):
    q, k, v = qkv(B=1, H=1, N=4096, d=64)
    m = attnmem.measure(attention, q, k, v, mask, backend=DEVICE)
    assert m.peak_bytes == PEAKS[mask] * 2**20


@pytest.mark.memory_budget("O(N*d)", backend=DEVICE)
@pytest.mark.parametrize("N", [4096])
def test_mask_of_a_chunk(qkv, N):
    attention(*qkv(B=1, H=1, N=N, d=64), mask_of_a_chunk)


@pytest.mark.xfail(strict=True, raises=BudgetExceeded, reason="the mask has N*N elements")
@pytest.mark.memory_budget("O(N*d)", backend=DEVICE)
@pytest.mark.parametrize("N", [4096])
@pytest.mark.parametrize("mask", [mask_of_floats, mask_of_bools])
def test_mask_of_all_pairs(qkv, N, mask):
    attention(*qkv(B=1, H=1, N=N, d=64), mask)


def test_all_give_the_same(qkv):
    q, k, v = qkv(B=1, H=2, N=1024, d=16)
    first = attention(q, k, v, mask_of_floats)
    assert torch.equal(first, attention(q, k, v, mask_of_bools))
    assert torch.equal(first, attention(q, k, v, mask_of_a_chunk))

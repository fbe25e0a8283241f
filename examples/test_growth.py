"""Growth contracts limit how fast memory grows, and contain no number of bytes."""

import pytest
import torch

from pytest_attnmem.kernels import flash, standard


@pytest.mark.memory_budget("O(N*d)")
@pytest.mark.parametrize(("N", "d"), [(1024, 64)])
def test_tiles_grow_with_the_length(qkv, N, d):
    flash.attention(*qkv(B=1, H=4, N=N, d=d))


@pytest.mark.memory_budget("O(N^2)")
@pytest.mark.parametrize("N", [1024])
def test_scores_grow_with_its_square(qkv, N):
    standard.attention(*qkv(B=1, H=4, N=N, d=64))


def memory_efficient(q, k, v):
    """Returns causal attention by tiles, with one mask for all tiles."""
    N = q.shape[2]
    mask = torch.ones(N, N, dtype=torch.bool).tril()
    out = torch.empty_like(q)
    for start in range(0, N, 128):
        rows = slice(start, start + 128)
        scores = (q[:, :, rows] @ k.mT).masked_fill_(~mask[rows], float("-inf"))
        out[:, :, rows] = scores.softmax(-1) @ v
    return out


@pytest.mark.xfail(strict=True, reason="the mask alone has N*N elements")
@pytest.mark.memory_budget("O(N*d)")
@pytest.mark.parametrize("N", [1024])
def test_a_mask_of_all_pairs_is_found(qkv, N):
    memory_efficient(*qkv(B=1, H=4, N=N, d=64))


@pytest.mark.parametrize("backward", [False, True])
def test_the_closed_form_of_standard_attention(attnmem, backward):
    form = attnmem.derive(standard.attention, *["B H N d"] * 3, backward=backward)
    assert form.degree("N") == 2
    assert form.degree("d") == 1

"""``flex_attention`` on the host against plain attention, by the blocks of its mask."""

import pytest
import torch
import torch.nn.functional as F
from torch._higher_order_ops.flex_attention import flex_attention

from pytest_attnmem.values.flex_attention import SCORE, flex, flex_work


def blocks(number, indices, full=None, full_indices=None):
    """Returns a mask of blocks of 2 in PyTorch's order, whose function allows earlier keys."""

    def on(data):
        return None if data is None else torch.tensor([[data]], dtype=torch.int32)

    lists = [on(number), on(indices), on(full), on(full_indices)]
    return (4, 4, *lists, *[None] * 8, 2, 2, lambda b, h, i, j: i >= j)


def attended(q, mask):
    """The output of attention of a tensor to itself."""
    inputs = (q, q, q, lambda score, *_: score, mask, 8**-0.5, {}, (), ())
    with torch.no_grad():
        return flex(flex_attention, inputs, backward=False)[0]


def test_blocks_in_part_have_the_function_and_full_ones_do_not():
    q = torch.randn(1, 2, 4, 8, generator=torch.Generator().manual_seed(1))
    mask = blocks([1, 1], [[0, 1], [1, 0]], [1, 0], [[1, 0], [0, 1]])
    out = attended(q, mask)
    allowed = torch.tensor([[1, 0, 1, 1], [1, 1, 1, 1], [0, 0, 1, 0], [0, 0, 1, 1]]).bool()
    torch.testing.assert_close(out, F.scaled_dot_product_attention(q, q, q, attn_mask=allowed))


@pytest.mark.parametrize("heads", [1, 2])
def test_a_mask_may_be_one_for_all_or_one_for_each(heads):
    def one(*rows):
        return torch.tensor(rows, dtype=torch.int32)

    batch = 3 - heads
    first, second = one([1, 1], [1, 1]), one([1, 2], [0, 1])
    number = torch.stack([first[0], second[0]]).view(batch, heads, 2)
    indices = torch.stack([one([0, 1], [1, 0]), one([0, 1], [0, 1])]).view(batch, heads, 2, 2)
    mask = (4, 4, number, indices, *[None] * 10, 2, 2, lambda b, h, i, j: i >= j)
    q = torch.randn(2, 2, 4, 8, generator=torch.Generator().manual_seed(1))
    out = attended(q, mask)
    causal = torch.ones(4, 4).tril().bool()
    apart = causal.clone()
    apart[2:, :2] = False
    allowed = torch.stack([apart, causal]).view(batch, heads, 4, 4)
    torch.testing.assert_close(out, F.scaled_dot_product_attention(q, q, q, attn_mask=allowed))


def test_work_counts_the_scores_that_the_dense_form_holds():
    q = torch.empty(2, 3, 5, 8)
    assert flex_work(q, torch.empty(2, 3, 7, 8), backward=False) == 2 * 3 * 5 * 7 * SCORE
    assert flex_work(q, torch.empty(2, 3, 7, 8), backward=True) == 2 * 3 * 5 * 7 * SCORE * 5 // 2

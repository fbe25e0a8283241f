"""Block-sparse: active blocks are what is seen, what is computed and what is counted."""

from __future__ import annotations

import re

import pytest
import torch

from pytest_attnmem.kernels.block_sparse import KERNEL, attention, local, random, strided
from pytest_attnmem.kernels.standard import attention as standard

from .references import BOTH, MODES, Calls, hold_equal

#: (N, M, block): that divide and do not, of one query, and of one block.
SIZES = [(33, 50, 8), (50, 20, 7), (9, 12, 1), (20, 30, 64), (1, 9, 4)]
OVER_SIZES = pytest.mark.parametrize("sizes", SIZES, ids=str)
PATTERNS = {
    "local": lambda rows, columns: local(rows, columns, 2),
    "strided": lambda rows, columns: strided(rows, columns, 3),
    "random": lambda rows, columns: random(rows, columns, 2),
    "several": lambda rows, columns: local(rows, columns, 1) | strided(rows, columns, 4),
    "all": lambda rows, columns: local(rows, columns, max(rows, columns)),
}
OVER_PATTERNS = pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)


def dense(mask):
    """A mask as a tensor, bool [rows, columns]."""
    tensor = torch.zeros(len(mask.rows), mask.columns, dtype=torch.bool)
    for i, row in enumerate(mask.rows):
        tensor[i, list(row)] = True
    return tensor


def in_blocks(N, M, block):
    return -(-N // block), -(-M // block)


@pytest.mark.usefixtures("poison")  # nothing uninitialized gets out
@OVER_SIZES
@OVER_PATTERNS
@pytest.mark.parametrize("as_tensor", [False, True], ids=["pattern", "tensor"])
def test_what_is_seen(sizes, pattern, as_tensor, causal, inputs):
    N, M, block = sizes
    tensors = inputs((2, 3, N, M, 8, 4), requires_grad=True)
    mask = pattern(*in_blocks(*sizes))
    seen = dense(mask).repeat_interleave(block, 0).repeat_interleave(block, 1)[:N, :M]
    block_mask = dense(mask) if as_tensor else mask

    def ours(*qkv):
        return attention(*qkv, block_mask=block_mask, block=block, causal=causal)

    def theirs(*qkv):
        return standard(*qkv, mask=seen, causal=causal)

    hold_equal(ours, theirs, tensors)


@MODES
@OVER_SIZES
@pytest.mark.parametrize("pattern", [PATTERNS["local"], PATTERNS["random"]], ids=["near", "random"])
def test_the_model_counts_active_blocks(
    sizes, pattern, dtype, training, causal, inputs, as_modelled
):
    N, M, block = sizes
    mask = pattern(*in_blocks(*sizes))
    active = {"active": (mask.causal() if causal else mask).active}
    options = {"block_mask": mask, "block": block, "causal": causal}
    as_modelled(KERNEL, training, inputs((2, 2, N, M, 8, 12), dtype), active, **options)


@BOTH
@OVER_SIZES
def test_the_model_of_all_blocks(sizes, training, causal, inputs, as_modelled):
    N, M, block = sizes
    tensors = inputs((2, 2, N, M, 8, 12), torch.float32)
    as_modelled(KERNEL, training, tensors, block=block, causal=causal)


@OVER_PATTERNS
def test_only_active_blocks_are_computed(pattern, causal, inputs):
    tensors = inputs((1, 1, 48, 40, 4, 4), requires_grad=True)
    mask = pattern(6, 5)
    active = (mask.causal() if causal else mask).active
    with Calls() as forward:
        out = attention(*tensors, block_mask=mask, block=8, causal=causal)
    with Calls() as backward:
        out.sum().backward()
    assert (forward.count, backward.count) == (2 * active, 4 * active)


def test_queries_without_an_active_block_get_zeros(causal, inputs):
    tensors = inputs((1, 2, 12, 12, 4, 4), requires_grad=True)
    mask = torch.tensor([[True, False, True], [False] * 3, [False, False, True]])
    out = attention(*tensors, block_mask=mask, block=4, causal=causal)
    assert out.eq(0).all(-1)[0, 0].tolist() == [False] * 4 + [True] * 4 + [False] * 4
    for gradient in torch.autograd.grad(out.sum(), tensors):
        assert gradient.isfinite().all()


def test_no_block_at_all(inputs):
    tensors = inputs((1, 2, 12, 12, 4, 4), requires_grad=True)
    out = attention(*tensors, block_mask=torch.zeros(3, 3, dtype=torch.bool), block=4)
    out.sum().backward()
    assert out.eq(0).all()
    assert all(x.grad.eq(0).all() for x in tensors)


SHAPE = "block_mask must have shape [ceil(N/block), ceil(M/block)] = [3, 4], got "


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block_mask": torch.ones(4, 3, dtype=torch.bool)}, f"{SHAPE}[4, 3]"),
        ({"block_mask": torch.ones(10, 12, dtype=torch.bool)}, f"{SHAPE}[10, 12]"),
        ({"block_mask": torch.ones(4, dtype=torch.bool)}, f"{SHAPE}[4]"),
        ({"block_mask": local(4, 4, 1)}, f"{SHAPE}[4, 4]"),
        ({"block_mask": torch.ones(3, 4)}, "block_mask must be of torch.bool, got torch.float32"),
    ],
)
def test_block_masks_that_do_not_fit(options, message, inputs):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        attention(*inputs((1, 1, 10, 13, 2, 2)), **{"block": 4, **options})


def test_patterns_by_hand():
    assert local(3, 4, 2).rows == ((0, 1), (0, 1, 2), (1, 2, 3))
    assert local(4, 2, 1).rows == ((0,), (1,), (), ())
    assert strided(3, 5, 2).rows == ((0, 2, 4), (1, 3), (0, 2, 4))
    assert (local(3, 3, 1) | strided(3, 3, 2)).rows == ((0, 2), (1,), (0, 2))
    assert local(3, 3, 3).causal().rows == ((0,), (0, 1), (0, 1, 2))
    assert local(3, 3, 3).active == 9


def test_random_blocks():
    mask = random(20, 30, 4, seed=1)
    assert [len(row) for row in mask.rows] == [4] * 20
    assert all(sorted({*row}) == list(row) and row[-1] < 30 for row in mask.rows)
    assert mask == random(20, 30, 4, seed=1) != random(20, 30, 4, seed=2)
    lower = random(20, 10, 4, causal=True)
    assert [len(row) for row in lower.rows] == [1, 2, 3, *[4] * 17]
    assert lower.causal() == lower


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: local(3, 3, 0), "window must be at least 1, got 0"),
        (lambda: strided(3, 3, -1), "stride must be at least 1, got -1"),
        (lambda: random(3, 3, 0), "count must be at least 1, got 0"),
        (
            lambda: local(3, 3, 1) | local(3, 4, 1),
            "block masks must have one shape, got [3, 3] and [3, 4]",
        ),
    ],
)
def test_patterns_that_cannot_be(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()

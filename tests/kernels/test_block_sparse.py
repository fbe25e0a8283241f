"""Block-sparse: active blocks are what is seen, what is computed and what is counted."""

from __future__ import annotations

import re

import pytest
import torch

from pytest_attnmem.kernels import KERNELS
from pytest_attnmem.kernels.block_sparse import attention, local, random, strided
from pytest_attnmem.kernels.standard import attention as standard

from .references import BOTH, MODES

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


@pytest.fixture
def kernel():
    return next(kernel for kernel in KERNELS if kernel.name == "block-sparse")


def dense(mask):
    """A mask as a tensor, bool [rows, columns]."""
    tensor = torch.zeros(len(mask.rows), mask.columns, dtype=torch.bool)
    for i, row in enumerate(mask.rows):
        tensor[i, list(row)] = True
    return tensor


def in_blocks(N, M, block):
    return -(-N // block), -(-M // block)


def gradients(function, tensors):
    return torch.autograd.grad(function(*tensors).square().sum(), tensors)


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

    assert (ours(*tensors) - theirs(*tensors)).abs().max() <= 1e-13
    for got, expected in zip(gradients(ours, tensors), gradients(theirs, tensors), strict=True):
        assert (got - expected).abs().max() <= 1e-12


@pytest.mark.usefixtures("poison")
@OVER_SIZES
@OVER_PATTERNS
def test_nothing_uninitialized_gets_out_of_patterns(sizes, pattern, causal, inputs):
    N, M, block = sizes
    tensors = inputs((2, 3, N, M, 8, 4), requires_grad=True)

    def sparse(*qkv):
        return attention(*qkv, block_mask=pattern(*in_blocks(*sizes)), block=block, causal=causal)

    assert sparse(*tensors).isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients(sparse, tensors))


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
    as_modelled(training, inputs((2, 2, N, M, 8, 12), dtype), active, **options)


@BOTH
@OVER_SIZES
def test_the_model_of_all_blocks(sizes, training, causal, inputs, as_modelled):
    N, M, block = sizes
    tensors = inputs((2, 2, N, M, 8, 12), torch.float32)
    as_modelled(training, tensors, block=block, causal=causal)


@BOTH
def test_a_block_more_is_its_weights_more(training, inputs, peak):
    tensors = inputs((1, 2, 64, 64, 8, 8), torch.float32, requires_grad=training)

    def at(count):
        mask = random(8, 8, count)

        def call():
            out = attention(*tensors, block_mask=mask, block=8)
            return torch.autograd.grad(out.sum(), tensors) if training else out

        return peak(call)

    assert [at(n + 1) - at(n) for n in range(1, 8)] == [8 * 2 * 8 * 8 * 4] * 7


@OVER_PATTERNS
def test_only_active_blocks_are_computed(pattern, causal, inputs, products):
    tensors = inputs((1, 1, 48, 40, 4, 4), requires_grad=True)
    mask = pattern(6, 5)
    active = (mask.causal() if causal else mask).active
    with products() as forward:
        out = attention(*tensors, block_mask=mask, block=8, causal=causal)
    with products() as backward:
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

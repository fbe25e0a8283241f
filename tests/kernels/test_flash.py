"""Flash: tiles of any size, heads that share keys, what it saves, and a peak of key heads."""

from __future__ import annotations

import re
from functools import partial

import pytest
import torch

from pytest_attnmem.kernels.flash import KERNEL, MODEL, attention
from pytest_attnmem.kernels.reference import standard_attention
from pytest_attnmem.kernels.standard import attention as standard
from pytest_attnmem.symbols.attention_shape import Source, gather

from .references import BOTH, MODES, Calls, gradients, hold_equal

#: (H, Hkv): grouped, multi-query, and multi-head.
HEADS = [(6, 2), (4, 1), (3, 3)]
#: Against N = 33 and M = 50.
BLOCKS = [{"block_q": q, "block_k": k} for q, k in ((7, 16), (16, 7), (64, 128))]
OVER_HEADS = pytest.mark.parametrize("heads", HEADS, ids=str)
OVER_BLOCKS = pytest.mark.parametrize("blocks", BLOCKS, ids=str)


def noise(*shape, dtype=torch.float64, requires_grad=False):
    random = torch.Generator().manual_seed(sum(shape))
    drawn = torch.randn(shape, generator=random, dtype=torch.float64).to(dtype)
    return drawn.requires_grad_(requires_grad)


def grouped(heads, N=33, M=50, d=8, dv=4, **options):
    """q, k and v of a batch of 2."""
    H, Hkv = heads
    shapes = ((2, H, N, d), (2, Hkv, M, d), (2, Hkv, M, dv))
    return tuple(noise(*shape, **options) for shape in shapes)


def expanded(q, k, v, **options):
    """Returns the expected output, from k and v with as many heads as q."""
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    return standard(q, k, v, **options)


MASKS = {
    "none": lambda H: None,
    "keys": lambda H: noise(50) > 0,
    "of each head": lambda H: noise(H, 33, 1) > 0.7,
    "numbers": lambda H: noise(2, H, 33, 50),
}


@pytest.mark.usefixtures("poison")  # nothing uninitialized gets out
@OVER_HEADS
@OVER_BLOCKS
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_it_is_attention_to_expanded_heads(heads, blocks, mask, causal):
    options = {"causal": causal, "mask": mask(heads[0]), "scale": 0.3}
    ours = partial(attention, **options, **blocks)
    hold_equal(ours, partial(expanded, **options), grouped(heads, requires_grad=True))


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float32, 1e-5), (torch.float16, 1e-2), (torch.bfloat16, 5e-2)],
    ids=str,
)
def test_other_dtypes(dtype, tolerance, causal):
    tensors = grouped((6, 2), dtype=dtype, requires_grad=True)
    exact = [x.detach().double().requires_grad_() for x in tensors]
    out = attention(*tensors, causal=causal)
    assert out.dtype == dtype
    assert (out - expanded(*exact, causal=causal)).abs().max() <= tolerance
    for got, expected in zip(
        gradients(partial(attention, causal=causal), tensors),
        gradients(partial(expanded, causal=causal), exact),
        strict=True,
    ):
        assert (got - expected).abs().max() <= tolerance * max(1, float(expected.abs().max()))


def test_gradcheck_of_groups(causal):
    tensors = grouped((4, 2), 3, 4, 2, 3, requires_grad=True)
    options = {"causal": causal, "block_q": 2, "block_k": 3}
    assert torch.autograd.gradcheck(lambda *qkv: attention(*qkv, **options), tensors)


@MODES
@OVER_HEADS
@OVER_BLOCKS
def test_the_model_over_heads_and_blocks(heads, blocks, dtype, training, causal, as_modelled):
    as_modelled(KERNEL, training, grouped(heads, dv=12, dtype=dtype), causal=causal, **blocks)


@BOTH
def test_the_model_with_a_mask(training, causal, as_modelled):
    mask = noise(33, 50) > 0
    tensors = grouped((6, 2), dtype=torch.float32)
    as_modelled(KERNEL, training, tensors, mask=mask, causal=causal, block_q=8, block_k=8)


@pytest.mark.parametrize("mode", ["forward", "training"])
def test_only_what_belongs_to_queries_is_of_query_heads(mode):
    """Each query head more costs its output, log-sum-exp, delta and dq, and nothing else."""

    def at(H):
        sizes = {"B": 2, "H": H, "Hkv": 2, "N": 1024, "M": 2048, "d": 64, "dtype": "float32"}
        return getattr(MODEL, mode).peak(gather([Source("the test", sizes)]))

    a_head = 2 * 1024 * ((64 + 1) if mode == "forward" else (64 + 1 + 1 + 64)) * 4
    assert at(32) - at(8) == 24 * a_head


K = "k must have shape [B, Hkv, M, d] = [2, Hkv, M, 8] with M >= 1 and Hkv a divisor of H = 6, got "


@pytest.mark.parametrize(
    ("k", "v", "message"),
    [
        (4, 4, f"{K}[2, 4, 12, 8]"),
        (0, 0, f"{K}[2, 0, 12, 8]"),
        (2, 3, "v must have shape [B, Hkv, M, dv] = [2, 2, 12, dv], got [2, 3, 12, 8]"),
    ],
)
def test_heads_that_do_not_fit(k, v, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        attention(noise(2, 6, 10, 8), noise(2, k, 12, 8), noise(2, v, 12, 8))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_inputs_are_rounded_once(dtype, causal, inputs):
    q, k, v = inputs((1, 2, 40, 3000, 8, 8), dtype)
    out = attention(q, k, v, causal=causal)
    exact = torch.as_tensor(
        standard_attention(q.double(), k.double(), v.double(), causal=causal)[0]
    )
    rounding = torch.finfo(dtype).eps / 2
    assert ((out.double() - exact).abs() <= rounding * exact.abs() + 1e-5).all()


@pytest.mark.parametrize(
    ("N", "M", "block_q", "block_k", "tiles"),
    [
        (64, 64, 16, 16, 4 + 3 + 2 + 1),
        (64, 64, 64, 8, 8),
        (64, 64, 8, 64, 8),
        (64, 64, 32, 16, 2 + 4),
        (64, 64, 16, 32, 1 + 1 + 2 + 2),
        (16, 100, 8, 10, 1 + 2),
        (100, 16, 50, 8, 2 + 2),
    ],
)
def test_causal_skips_what_is_above_the_diagonal(N, M, block_q, block_k, tiles, inputs):
    tensors = inputs((1, 1, N, M, 4, 4), requires_grad=True)
    with Calls() as forward:
        out = attention(*tensors, causal=True, block_q=block_q, block_k=block_k)
    with Calls() as backward:
        out.sum().backward()
    assert (forward.count, backward.count) == (2 * tiles, 5 * tiles)

"""Chunked, sliding window, strided: what is seen, and their models, over all the ways to cut."""

from __future__ import annotations

import math

import pytest
import torch

from pytest_attnmem.kernels import KERNELS, chunked, sliding_window, strided
from pytest_attnmem.kernels.standard import attention as standard
from pytest_attnmem.symbols.attention_shape import Source, gather

from .references import BOTH, MODES, hold_equal, noise

#: (N, M): more keys, more queries, one query.
LENGTHS = [(33, 50), (50, 20), (1, 9)]
#: Cuts of one key, of one query, that divide nothing, and larger than everything.
CUTS = {
    "chunked": [
        {"chunk_q": 3, "chunk_k": 50},
        {"chunk_q": 33, "chunk_k": 4},
        {"chunk_q": 7, "chunk_k": 16},
        {"chunk_q": 64, "chunk_k": 128},
    ],
    "sliding-window": [
        {"window": 1, "block": 16},
        {"window": 7, "block": 5},
        {"window": 20, "block": 16},
        {"window": 500, "block": 7},
    ],
    "strided": [{"stride": 1}, {"stride": 6}, {"stride": 20}, {"stride": 500}],
}


def over(cuts):
    return pytest.mark.parametrize(
        ("kernel", "cut"),
        [(kernel, cut) for kernel in KERNELS for cut in CUTS.get(kernel.name, ())[cuts]],
        ids=lambda x: getattr(x, "name", None) or " ".join(map(str, x.values())),
    )


OVER_LENGTHS = pytest.mark.parametrize("lengths", LENGTHS, ids=str)


MASKS = {
    "none": lambda N, M: None,
    "keys": lambda N, M: noise(M) > 0,
    "of each query": lambda N, M: noise(2, 1, N, M) > 0.7,
    "numbers": lambda N, M: noise(3, N, 1),
}


def pattern(N, M, causal, window=math.inf, stride=None, **_):
    """Where a key is seen."""
    before = torch.arange(N)[:, None] - torch.arange(M)
    seen = before.abs() < window
    if stride is not None:
        seen = (before.abs() < stride) | (before % stride == 0)
    return seen & (before >= 0) if causal else seen


@over(slice(None))
@pytest.mark.parametrize(
    ("lengths", "mask"),
    [
        (lengths, mask)
        for lengths in LENGTHS
        for mask in MASKS
        if mask == "none" or lengths == LENGTHS[0]
    ],
    ids=str,
)
def test_what_is_seen(kernel, cut, lengths, mask, causal, inputs):
    tensors = inputs((2, 3, *lengths, 8, 4), requires_grad=True)
    seen, given = pattern(*lengths, causal, **cut), MASKS[mask](*lengths)
    expected = torch.zeros(lengths).masked_fill(~seen, -torch.inf).double()
    if given is not None:
        added = given if given.dtype != torch.bool else torch.where(given, 0.0, -torch.inf)
        expected = expected + added

    def ours(*qkv):
        return kernel.attention(*qkv, **cut, causal=causal, mask=given)

    def theirs(*qkv):
        return standard(*qkv, mask=expected)

    hold_equal(ours, theirs, tensors)


@MODES
@over(slice(None))
@OVER_LENGTHS
def test_the_model_over_cuts(kernel, cut, lengths, dtype, training, causal, inputs, as_modelled):
    tensors = inputs((2, 2, *lengths, 8, 12), dtype)
    as_modelled(kernel, training, tensors, **cut, causal=causal)


@BOTH
@over(slice(1, 2))
@pytest.mark.parametrize("mask", [noise(33, 50) > 0, noise(50) > 0], ids=["all", "keys"])
def test_the_model_with_a_mask(kernel, cut, mask, training, causal, inputs, as_modelled):
    tensors = inputs((2, 2, 33, 50, 8, 12), torch.float32)
    as_modelled(kernel, training, tensors, mask=mask, causal=causal, **cut)


def test_a_query_that_sees_nothing_in_its_first_chunks(inputs):
    tensors = inputs((1, 1, 3, 12, 4, 4), requires_grad=True)
    mask = torch.zeros(3, 12, dtype=torch.bool)
    mask[0, 11] = mask[1, 0] = True
    out = chunked.attention(*tensors, mask=mask, chunk_q=2, chunk_k=3)
    v = tensors[2][0, 0]
    assert torch.equal(out[0, 0], torch.stack([v[11], v[0], torch.zeros_like(v[0])]))
    for gradient in torch.autograd.grad(out.sum(), tensors):
        assert gradient.isfinite().all()


def test_queries_far_past_the_last_key_get_zeros(inputs):
    q, k, v = inputs((1, 1, 50, 20, 4, 4))
    blind = sliding_window.attention(q, k, v, window=7, block=8).eq(0).all(-1)[0, 0]
    assert blind.nonzero().flatten().tolist() == list(range(26, 50))


def test_the_stride_is_the_root_of_the_length(inputs):
    q, k, v = inputs((1, 2, 50, 50, 4, 4))
    assert torch.equal(strided.attention(q, k, v), strided.attention(q, k, v, stride=8))


def at(N, **sizes):
    return gather([Source("the test", {"B": 1, "H": 1, "N": N, "d": 1, **sizes})])


@pytest.mark.parametrize("N", [1, 128, 16384, 16385, 40000])
def test_a_chunk_is_the_root_of_the_length(N):
    """In the model; and the model holds whatever N is."""
    root = min(N, max(chunked.SMALLEST, math.ceil(math.sqrt(N))))
    live = chunked.MODEL.forward.live(at(N, dtype="float32"))
    assert live["scores"]["tile"] == root * root * 4


@BOTH
def test_the_model_past_the_smallest_chunk(training, inputs, as_modelled):
    as_modelled(chunked.KERNEL, training, inputs((1, 1, 16500, 300, 2, 2), torch.float32))


@pytest.mark.parametrize("mode", ["forward", "training"])
def test_strided_grows_with_N_not_its_square(mode, causal):
    """At the squares of powers of two, where blocks have no remainder, of tokens by the million."""
    model = getattr(strided.MODEL, mode)
    small, large = (
        model.peak(at(N, H=8, d=64, dtype="float16", causal=causal)) for N in (2**16, 2**20)
    )
    assert large < 16.2 * small

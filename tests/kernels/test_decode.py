"""Decoding: caches of either kind give what attention without one gives, at the model's cost."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import torch
from torch import Tensor

from pytest_attnmem.kernels import decode
from pytest_attnmem.kernels.reference import standard_attention
from pytest_attnmem.measurement.window_stack import window
from pytest_attnmem.symbols.attention_shape import Source, gather

TOLERANCE = {torch.float64: 1e-13, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}
DTYPES = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
EXACT = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
KINDS = pytest.mark.parametrize("kind", ["static", "growing"])
#: (B, H, Hkv, d, dv)
HEADS = pytest.mark.parametrize(
    "heads", [(2, 4, 4, 8, 8), (2, 4, 2, 8, 5), (1, 6, 1, 3, 4), (1, 1, 1, 1, 1)], ids=str
)


def random(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def tensors(heads, N, dtype=torch.float64):
    B, H, Hkv, d, dv = heads
    return tuple(
        random(*shape, dtype=dtype, seed=seed)
        for seed, shape in enumerate([(B, H, N, d), (B, Hkv, N, d), (B, Hkv, N, dv)])
    )


def empty(kind, heads, capacity, dtype=torch.float64):
    B, _, Hkv, d, dv = heads
    if kind == "growing":
        return decode.GrowingCache.allocate(B, Hkv, d, dv=dv, dtype=dtype)
    cache = decode.StaticCache.allocate(B, Hkv, capacity, d, dv=dv, dtype=dtype)
    for room in (cache._keys, cache._values):
        room.fill_(torch.nan)  # what is not written is not read
    return cache


def rows(x: Tensor, first: int, last: int) -> Tensor:
    return x[:, :, first:last]


def expected(q, k, v, mask=None, scale=None):
    group = q.shape[1] // k.shape[1]
    q, k, v = (x.double().numpy() for x in (q, k, v))
    k, v = (np.repeat(x, group, 1) for x in (k, v))
    return torch.as_tensor(standard_attention(q, k, v, mask, causal=True, scale=scale)[0])


@DTYPES
@KINDS
@HEADS
@pytest.mark.parametrize("cut", [range(14), (0, 13), (0, 5, 6, 7, 13), (0, 1, 9, 13)], ids=str)
def test_steps_are_causal_attention(cut, heads, kind, dtype):
    q, k, v = tensors(heads, 13, dtype)
    cache, outs = empty(kind, heads, 20, dtype), []
    for first, last in itertools.pairwise(cut):
        out, cache = decode.attention(*(rows(x, first, last) for x in (q, k, v)), cache=cache)
        assert out.dtype == dtype
        outs.append(out)
    assert (torch.cat(outs, 2) - expected(q, k, v)).abs().max() <= TOLERANCE[dtype]
    assert torch.equal(cache.k, k)
    assert torch.equal(cache.v, v)


@KINDS
def test_scale(kind):
    heads = (2, 4, 2, 8, 5)
    q, k, v = tensors(heads, 6)
    out, _ = decode.attention(q, k, v, cache=empty(kind, heads, 6), scale=0.7)
    assert (out - expected(q, k, v, scale=0.7)).abs().max() <= 1e-13


@KINDS
@pytest.mark.parametrize("boolean", [True, False], ids=["bool", "float"])
@pytest.mark.parametrize("shape", [(9,), (4, 9), (2, 1, 1, 9), (2, 4, 4, 9)], ids=str)
def test_masks(shape, boolean, kind):
    heads = (2, 4, 2, 8, 5)
    q, k, v = tensors(heads, 9)
    mask = random(*shape, seed=3)
    mask = mask > 0 if boolean else mask
    _, cache = decode.attention(*(rows(x, 0, 5) for x in (q, k, v)), cache=empty(kind, heads, 9))
    out, _ = decode.attention(*(rows(x, 5, 9) for x in (q, k, v)), cache=cache, mask=mask)
    full = torch.zeros(2, 4, 9, 9, dtype=mask.dtype)
    full[:, :, 5:] = mask
    assert (out - rows(expected(q, k, v, full), 5, 9)).abs().max() <= 1e-13


@KINDS
@pytest.mark.parametrize("boolean", [True, False], ids=["bool", "float"])
def test_a_query_that_sees_nothing_gets_zeros(boolean, kind):
    heads = (1, 2, 2, 4, 3)
    mask = torch.zeros(3, 3, dtype=torch.bool)
    mask[0, 0] = mask[2, 1] = True
    if not boolean:
        mask = torch.zeros(3, 3, dtype=torch.float64).masked_fill_(~mask, -torch.inf)
    q, k, v = tensors(heads, 3)
    out, _ = decode.attention(q, k, v, cache=empty(kind, heads, 3), mask=mask)
    assert out[:, :, 1].eq(0).all()
    assert (out[:, :, [0, 2]] - v[:, :, [0, 1]]).abs().max() <= 1e-15


@pytest.mark.usefixtures("poison")
@KINDS
def test_two_runs_are_equal_to_the_bit_and_all_is_written(kind):
    heads = (2, 4, 2, 8, 5)
    outs = [decode.attention(*tensors(heads, 9), cache=empty(kind, heads, 9))[0] for _ in range(2)]
    assert torch.equal(*outs)  # which NaN would not be


def test_a_static_cache_stays_where_it_is():
    heads = (1, 2, 2, 4, 3)
    cache = empty("static", heads, 4)
    for _ in range(4):
        _, longer = decode.attention(*tensors(heads, 1), cache=cache)
        assert longer.k.data_ptr() == cache._keys.data_ptr()
        cache = longer
    with pytest.raises(ValueError, match=r"^cache must have room for 1 more, got 4 of 4 in use$"):
        decode.attention(*tensors(heads, 1), cache=cache)


def test_a_growing_cache_leaves_the_old_one_alone():
    heads = (1, 2, 2, 4, 3)
    old = decode.GrowingCache(*tensors(heads, 5)[1:])
    kept = old.k.clone()
    _, new = decode.attention(*tensors(heads, 1), cache=old)
    assert torch.equal(old.k, kept)
    assert (old.k.shape[2], new.k.shape[2]) == (5, 6)


GOOD = {"q": (2, 4, 1, 8), "k": (2, 2, 1, 8), "v": (2, 2, 1, 5)}


Q = "q must have shape [B, H, N, d] with N >= 1 and d >= 1, got "
K = "k must have shape [B, Hkv, N, d] = [2, Hkv, 1, 8] with Hkv a divisor of H = 4, got "


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": (2, 4, 8)}, f"{Q}[2, 4, 8]"),
        ({"q": (2, 4, 0, 8)}, f"{Q}[2, 4, 0, 8]"),
        ({"k": (2, 3, 1, 8)}, f"{K}[2, 3, 1, 8]"),
        ({"k": (2, 2, 2, 8)}, f"{K}[2, 2, 2, 8]"),
        (
            {"v": (2, 1, 1, 5)},
            "v must have shape [B, Hkv, N, dv] = [2, 2, 1, dv], got [2, 1, 1, 5]",
        ),
        (
            {"k": (2, 1, 1, 8), "v": (2, 1, 1, 5)},
            "cache.k must have shape [B, Hkv, M, d] = [2, 1, M, 8], got [2, 2, 3, 8]",
        ),
        (
            {"v": (2, 2, 1, 6)},
            "cache.v must have shape [B, Hkv, M, dv] = [2, 2, M, 6], got [2, 2, 3, 5]",
        ),
    ],
)
def test_shapes_that_do_not_fit(change, message):
    q, k, v = (torch.zeros(shape) for shape in {**GOOD, **change}.values())
    cache = decode.GrowingCache(torch.zeros(2, 2, 3, 8), torch.zeros(2, 2, 3, 5))
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        decode.attention(q, k, v, cache=cache)


@pytest.mark.parametrize(
    ("dtypes", "message"),
    [
        (
            ("float32", "float32", "float64"),
            "cache.k must be of k's dtype and device, torch.float32 on cpu, got torch.float64 on"
            " cpu",
        ),
        (
            ("float32", "float64", "float64"),
            "k must be of q's dtype, torch.float32, got torch.float64",
        ),
    ],
)
def test_dtypes_that_do_not_fit(dtypes, message):
    ours, new, old = (getattr(torch, name) for name in dtypes)
    q = torch.zeros(GOOD["q"], dtype=ours)
    k, v = (torch.zeros(GOOD[name], dtype=new) for name in "kv")
    cache = decode.StaticCache.allocate(2, 2, 3, 8, dv=5, dtype=old)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        decode.attention(q, k, v, cache=cache)


def test_a_mask_that_does_not_fit():
    q, k, v = (torch.zeros(shape) for shape in GOOD.values())
    cache = decode.StaticCache.allocate(2, 2, 3, 8, dv=5)
    message = r"^mask must broadcast to \[B, H, N, M\] = \[2, 4, 1, 1\], got \[2\]$"
    with pytest.raises(ValueError, match=message):
        decode.attention(q, k, v, cache=cache, mask=torch.ones(2, dtype=torch.bool))


def test_there_is_no_backward():
    q, k, v = (torch.zeros(shape) for shape in GOOD.values())
    cache = decode.GrowingCache.allocate(2, 2, 8, dv=5)
    message = r"^decode has no backward pass: call it under torch.no_grad\(\)$"
    with pytest.raises(ValueError, match=message):
        decode.attention(q.requires_grad_(), k, v, cache=cache)
    with torch.no_grad():
        decode.attention(q, k, v, cache=cache)


class Step:
    """One step after M - N others, to be measured and modelled."""

    def __init__(self, kind, heads, N, M, dtype, mask=None):
        past = [rows(x, 0, M - N) for x in tensors(heads, M, dtype)]
        self.cache = empty(kind, heads, M, dtype).extended(*past[1:])
        self.tensors, self.mask = tensors(heads, N, dtype), mask
        self.model = decode.STATIC if kind == "static" else decode.GROWING
        sizes = dict(zip(("B", "H", "Hkv", "d", "dv"), heads, strict=True), N=N, M=M, dtype=dtype)
        self.shape = gather(
            [Source("test", {**sizes, "mask": 0 if mask is None else mask.numel()})]
        )

    def __call__(self):
        return decode.attention(*self.tensors, cache=self.cache, mask=self.mask)


@EXACT
@KINDS
@HEADS
@pytest.mark.parametrize(("N", "M"), [(1, 1), (1, 33), (1, 100), (5, 12), (12, 12)])
def test_the_model_is_the_measured_peak(N, M, heads, kind, dtype, peak, cpu):
    step = Step(kind, heads, N, M, dtype)
    assert peak(step) == peak(step, trace=True) == step.model.peak(step.shape, cpu.kinds)


@EXACT
@KINDS
@pytest.mark.parametrize("shape", [(33,), (2, 1, 1, 33), (2, 4, 3, 33)], ids=str)
@pytest.mark.parametrize("N", [1, 3])
def test_masks_are_in_the_model(N, shape, kind, dtype, peak, cpu):
    mask = torch.ones(*shape[:2], *(min(N, size) for size in shape[2:3]), *shape[3:]).bool()
    step = Step(kind, (2, 4, 2, 8, 5), N, 33, dtype, mask)
    assert peak(step) == peak(step, trace=True) == step.model.peak(step.shape, cpu.kinds)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@KINDS
@HEADS
def test_half_types_have_the_program_of_the_model(heads, kind, dtype, peak):
    step = Step(kind, heads, 1, 40, dtype)
    program = step.model.peak(step.shape)
    assert peak(step, trace=True) == program
    assert peak(step) >= program  # the rest is scratch, and the machine's own


@KINDS
def test_what_is_retained(kind, cpu):
    B, _, Hkv, d, dv = heads = (2, 4, 2, 8, 5)
    step = Step(kind, heads, 1, 40, torch.float32)
    with window(cpu) as opened:
        out, _cache = step()
    grown = B * Hkv * 40 * (d + dv) * 4 if kind == "growing" else 0
    assert opened.measurement.retained_bytes == out.nbytes + grown

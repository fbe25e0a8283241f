"""Grouped-query: heads that share keys, in gradients too, and a peak that counts key heads."""

from __future__ import annotations

import re

import pytest
import torch

from pytest_attnmem.kernels import KERNELS
from pytest_attnmem.kernels.grouped_query import BLOCK_K, BLOCK_Q, MODEL, attention
from pytest_attnmem.kernels.standard import attention as standard
from pytest_attnmem.measurement.window_stack import window
from pytest_attnmem.symbols.attention_shape import Source, gather

#: (H, Hkv): grouped, multi-query, and multi-head.
HEADS = [(6, 2), (4, 1), (3, 3)]
BLOCKS = [(7, 16), (16, 7), (64, 128)]
DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
OVER_HEADS = pytest.mark.parametrize("heads", HEADS, ids=str)
OVER_BLOCKS = pytest.mark.parametrize("blocks", BLOCKS, ids=str)
#: Each type in one mode; ``test_models`` has every type in both, at other sizes.
MODES = pytest.mark.parametrize(
    ("dtype", "training"),
    [(torch.float64, False), (torch.bfloat16, True)],
    ids=["forward", "training"],
)
BOTH = pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])


@pytest.fixture
def kernel():
    return next(kernel for kernel in KERNELS if kernel.name == "grouped-query")


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


def gradients(function, tensors, **options):
    return torch.autograd.grad(function(*tensors, **options).square().sum(), tensors)


MASKS = {
    "none": lambda H: None,
    "keys": lambda H: noise(50) > 0,
    "of each head": lambda H: noise(H, 33, 1) > 0.7,
    "numbers": lambda H: noise(2, H, 33, 50),
}


@OVER_HEADS
@OVER_BLOCKS
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_it_is_attention_to_expanded_heads(heads, blocks, mask, causal):
    tensors = grouped(heads, requires_grad=True)
    options = {"causal": causal, "mask": mask(heads[0]), "scale": 0.3}
    cut = dict(zip(("block_q", "block_k"), blocks, strict=True))
    got, expected = attention(*tensors, **options, **cut), expanded(*tensors, **options)
    assert (got - expected).abs().max() <= 1e-13
    for got, expected in zip(
        gradients(attention, tensors, **options, **cut),
        gradients(expanded, tensors, **options),
        strict=True,
    ):
        assert (got - expected).abs().max() <= 1e-12


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
        gradients(attention, tensors, causal=causal),
        gradients(expanded, exact, causal=causal),
        strict=True,
    ):
        assert (got - expected).abs().max() <= tolerance * max(1, float(expected.abs().max()))


def test_gradcheck_of_groups(causal):
    tensors = grouped((4, 2), 3, 4, 2, 3, requires_grad=True)
    options = {"causal": causal, "block_q": 2, "block_k": 3}
    assert torch.autograd.gradcheck(lambda *qkv: attention(*qkv, **options), tensors)


def test_two_runs_are_equal_to_the_bit():
    tensors = grouped((6, 2), dtype=torch.float32, requires_grad=True)
    runs = [gradients(attention, tensors) for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


@pytest.mark.usefixtures("poison")
@OVER_BLOCKS
def test_nothing_uninitialized_gets_out_of_groups(blocks, causal):
    tensors = grouped((6, 2), requires_grad=True)
    cut = dict(zip(("block_q", "block_k"), blocks, strict=True))
    for result in gradients(attention, tensors, causal=causal, **cut):
        assert result.isfinite().all()


@pytest.mark.parametrize("transposed", ["q", "all"])
def test_layouts_other_than_contiguous(transposed):
    tensors = grouped((6, 2))
    expected = expanded(*tensors)
    strided = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in tensors]
    if transposed == "q":
        strided[1:] = tensors[1:]
    assert (attention(*strided) - expected).abs().max() <= 1e-13


@MODES
@OVER_HEADS
@OVER_BLOCKS
def test_the_model_over_heads_and_blocks(heads, blocks, dtype, training, causal, peaks):
    cut = dict(zip(("block_q", "block_k"), blocks, strict=True))
    real, program = peaks(training, grouped(heads, dv=12, dtype=dtype), causal=causal, **cut)
    assert (real[0], program[0]) == (real[1], program[1])


@BOTH
def test_the_model_with_a_mask(training, causal, peaks):
    mask = noise(33, 50) > 0
    tensors = grouped((6, 2), dtype=torch.float32)
    real, program = peaks(training, tensors, mask=mask, causal=causal, block_q=8, block_k=8)
    assert (real[0], program[0]) == (real[1], program[1])


@BOTH
@DTYPES
@pytest.mark.parametrize(
    "sizes", [(4, 4, 1, 64), (4, 4, 64, 1), (300, 1, 64, 1), (1, 1, 1, 500)], ids=str
)
def test_the_model_at_the_edges(sizes, dtype, training, peaks):
    real, program = peaks(training, grouped((4, 2), *sizes, dtype=dtype), block_q=4, block_k=4)
    assert (real[0], program[0]) == (real[1], program[1])


@pytest.mark.parametrize("mode", ["forward", "training"])
def test_only_what_belongs_to_queries_is_of_query_heads(mode):
    """Each query head more costs its output, log-sum-exp, delta and dq, and nothing else."""

    def at(H):
        sizes = {"B": 2, "H": H, "Hkv": 2, "N": 1024, "M": 2048, "d": 64, "dtype": "float32"}
        return getattr(MODEL, mode).peak(gather([Source("the test", sizes)]))

    a_head = 2 * 1024 * ((64 + 1) if mode == "forward" else (64 + 1 + 1 + 64)) * 4
    assert at(32) - at(8) == 24 * a_head


def test_defaults_are_the_functions():
    defaults = {"causal": 0, "mask": 0, "block_q": BLOCK_Q, "block_k": BLOCK_K}
    assert MODEL.forward.defaults == MODEL.training.defaults == defaults


@DTYPES
def test_what_is_saved(dtype, saved):
    q, k, v = grouped((6, 2), dtype=dtype, requires_grad=True)
    out, tensors = saved(lambda: attention(q, k, v))
    assert [x.data_ptr() for x in tensors[:4]] == [x.data_ptr() for x in (q, k, v, out)]
    (lse,) = tensors[4:]
    assert lse.shape == (2, 6, 33)
    assert lse.dtype == torch.promote_types(dtype, torch.float32)


@pytest.mark.parametrize("how", ["no_grad", "no requires_grad", "training"])
def test_what_is_retained(how, cpu):
    tensors = grouped((6, 2), dtype=torch.float32, requires_grad=how != "no requires_grad")
    with torch.set_grad_enabled(how != "no_grad"), window(cpu) as opened:
        out = attention(*tensors)
    lse = 2 * 6 * 33 * 4 if how == "training" else 0
    assert opened.measurement.retained_bytes == out.nbytes + lse


@pytest.mark.parametrize(
    ("k", "v", "message"),
    [
        (
            (2, 4, 12, 8),
            (2, 4, 12, 8),
            "k must have shape [B, Hkv, M, d] = [2, Hkv, M, 8] with M >= 1 and Hkv a divisor of"
            " H = 6, got [2, 4, 12, 8]",
        ),
        (
            (2, 0, 12, 8),
            (2, 0, 12, 8),
            "k must have shape [B, Hkv, M, d] = [2, Hkv, M, 8] with M >= 1 and Hkv a divisor of"
            " H = 6, got [2, 0, 12, 8]",
        ),
        ((2, 2, 12, 8), (2, 3, 12, 8), "v must have shape [B, Hkv, M, dv] = [2, 2, 12, dv], got"),
    ],
)
def test_heads_that_do_not_fit(k, v, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        attention(noise(2, 6, 10, 8), noise(*k), noise(*v))


@pytest.mark.parametrize("name", ["block_q", "block_k"])
@pytest.mark.parametrize("size", [0, -1])
def test_blocks_have_rows(name, size):
    with pytest.raises(ValueError, match=f"^{name} must be at least 1, got {size}$"):
        attention(*grouped((2, 1)), **{name: size})


def test_a_mask_gets_no_gradient():
    mask = noise(33, 50, requires_grad=True)
    message = "^mask must not require a gradient in grouped-query, got one that does$"
    with pytest.raises(ValueError, match=message):
        attention(*grouped((2, 1)), mask=mask)

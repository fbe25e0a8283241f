"""Chunked: √N by default, nothing kept but its inputs, masks in each chunk."""

from __future__ import annotations

import math

import pytest
import torch

from pytest_attnmem.kernels import KERNELS
from pytest_attnmem.kernels.chunked import MODEL, SMALLEST, attention
from pytest_attnmem.kernels.standard import attention as standard
from pytest_attnmem.measurement.window_stack import window
from pytest_attnmem.symbols.attention_shape import Source, gather

#: (chunk_q, chunk_k) against N = 33 and M = 50: that divide one, neither, and of one chunk.
CHUNKS = [(3, 50), (33, 4), (7, 16), (64, 128)]
DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
BOTH = pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])


@pytest.fixture
def kernel():
    return next(kernel for kernel in KERNELS if kernel.name == "chunked")


def gradients(function, tensors):
    return torch.autograd.grad(function(*tensors).square().sum(), tensors)


def noise(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


MASKS = {
    "none": None,
    "keys": noise(50) > 0,
    "of each query": noise(2, 1, 33, 50) > 0.7,
    "numbers": noise(3, 33, 1),
}


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_chunks_change_nothing(chunks, mask, causal, inputs):
    tensors = inputs((2, 3, 33, 50, 8, 4), requires_grad=True)
    options = dict(zip(("chunk_q", "chunk_k"), chunks, strict=True), causal=causal, mask=mask)
    out = attention(*tensors, **options)
    expected = standard(*tensors, causal=causal, mask=mask)
    assert (out - expected).abs().max() <= 1e-13
    for got, other in zip(
        gradients(lambda *qkv: attention(*qkv, **options), tensors),
        gradients(lambda *qkv: standard(*qkv, causal=causal, mask=mask), tensors),
        strict=True,
    ):
        assert (got - other).abs().max() <= 1e-12


def test_a_query_that_sees_nothing_in_its_first_chunks(inputs):
    tensors = inputs((1, 1, 3, 12, 4, 4), requires_grad=True)
    mask = torch.zeros(3, 12, dtype=torch.bool)
    mask[0, 11] = mask[1, 0] = True
    out = attention(*tensors, mask=mask, chunk_q=2, chunk_k=3)
    v = tensors[2][0, 0]
    assert torch.equal(out[0, 0], torch.stack([v[11], v[0], torch.zeros_like(v[0])]))
    for gradient in torch.autograd.grad(out.sum(), tensors):
        assert gradient.isfinite().all()


@BOTH
@DTYPES
@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_the_model_over_chunks(chunks, dtype, training, causal, inputs, peaks):
    tensors = inputs((2, 2, 33, 50, 8, 12), dtype)
    options = dict(zip(("chunk_q", "chunk_k"), chunks, strict=True), causal=causal)
    real, program = peaks(training, tensors, **options)
    assert (real[0], program[0]) == (real[1], program[1])


@BOTH
@pytest.mark.parametrize("mask", [noise(33, 50) > 0, noise(50) > 0], ids=["all", "keys"])
def test_the_model_with_a_mask(mask, training, causal, inputs, peaks):
    tensors = inputs((2, 2, 33, 50, 8, 12), torch.float32)
    real, program = peaks(training, tensors, mask=mask, causal=causal, chunk_q=8, chunk_k=8)
    assert (real[0], program[0]) == (real[1], program[1])


@BOTH
@DTYPES
@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 4, 4, 1, 64), (1, 1, 4, 4, 64, 1), (1, 1, 300, 1, 64, 1), (1, 1, 1, 1, 1, 500)],
    ids=str,
)
def test_the_model_at_the_edges(sizes, dtype, training, inputs, peaks):
    real, program = peaks(training, inputs(sizes, dtype), chunk_q=4, chunk_k=4)
    assert (real[0], program[0]) == (real[1], program[1])


@pytest.mark.parametrize("N", [1, 128, 16384, 16385, 40000])
def test_a_chunk_is_the_root_of_the_length(N):
    """In the model; and the model holds whatever N is."""
    shape = gather([Source("the test", {"B": 1, "H": 1, "N": N, "d": 1, "dtype": "float32"})])
    root = min(N, max(SMALLEST, math.ceil(math.sqrt(N))))
    assert MODEL.forward.live(shape)["scores"]["tile"] == root * root * 4


@BOTH
def test_the_model_past_the_smallest_chunk(training, inputs, peaks):
    real, program = peaks(training, inputs((1, 1, 16500, 130, 2, 2), torch.float32))
    assert (real[0], program[0]) == (real[1], program[1])


@DTYPES
def test_only_inputs_are_saved(dtype, inputs, saved):
    q, k, v = inputs((2, 3, 33, 50, 8, 4), dtype, requires_grad=True)
    mask = torch.ones(33, 50, dtype=torch.bool)
    _, tensors = saved(lambda: attention(q, k, v, mask=mask))
    assert [x.data_ptr() for x in tensors] == [x.data_ptr() for x in (q, k, v, mask)]


@pytest.mark.parametrize("how", ["no_grad", "no requires_grad", "training"])
def test_only_the_output_is_retained(how, inputs, cpu):
    q, k, v = inputs((2, 3, 33, 50, 8, 4), torch.float32, requires_grad=how != "no requires_grad")
    with torch.set_grad_enabled(how != "no_grad"), window(cpu) as opened:
        out = attention(q, k, v)
    assert opened.measurement.retained_bytes == out.nbytes


@BOTH
def test_memory_grows_with_N_not_its_square(training, inputs, peaks):
    def at(N):
        return peaks(training, inputs((1, 2, N, N, 8, 8), torch.float32), chunk_q=32, chunk_k=32)

    first, second, third = (at(N)[0][0] for N in (64, 128, 192))
    assert third - second == second - first


@pytest.mark.parametrize("name", ["chunk_q", "chunk_k"])
@pytest.mark.parametrize("size", [0, -1])
def test_chunks_have_rows(name, size, inputs):
    with pytest.raises(ValueError, match=f"^{name} must be at least 1, got {size}$"):
        attention(*inputs((1, 1, 3, 3, 2, 2)), **{name: size})


def test_a_mask_gets_no_gradient(inputs):
    mask = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    q, k, v = inputs((1, 1, 3, 3, 2, 2), requires_grad=True)
    message = "^mask must not require a gradient in chunked, got one that does$"
    with pytest.raises(ValueError, match=message):
        attention(q, k, v, mask=mask)
    with torch.no_grad():
        attention(q, k, v, mask=mask)

"""Strided: what is seen, over strides, and memory that does not know N²."""

from __future__ import annotations

import pytest
import torch

from pytest_attnmem.kernels import KERNELS
from pytest_attnmem.kernels.standard import attention as standard
from pytest_attnmem.kernels.strided import MODEL, attention
from pytest_attnmem.measurement.window_stack import window
from pytest_attnmem.symbols.attention_shape import Source, gather

#: One key, a stride that divides nothing, the root, and one larger than every length.
STRIDES = [1, 6, 20, 500]
LENGTHS = [(33, 50), (50, 20), (1, 9)]
DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
OVER_STRIDES = pytest.mark.parametrize("stride", STRIDES)
OVER_LENGTHS = pytest.mark.parametrize("lengths", LENGTHS, ids=str)
#: Each type in one mode; ``test_models`` has every type in both, at other sizes.
MODES = pytest.mark.parametrize(
    ("dtype", "training"),
    [(torch.float64, False), (torch.bfloat16, True)],
    ids=["forward", "training"],
)
BOTH = pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])


@pytest.fixture
def kernel():
    return next(kernel for kernel in KERNELS if kernel.name == "strided")


def pattern(N, M, stride, causal):
    before = torch.arange(N)[:, None] - torch.arange(M)
    return ((before.abs() < stride) | (before % stride == 0)) & (before >= 0 if causal else True)


def gradients(function, tensors):
    return torch.autograd.grad(function(*tensors).square().sum(), tensors)


@OVER_LENGTHS
@OVER_STRIDES
@pytest.mark.parametrize("masked", [False, True])
def test_what_is_seen(stride, lengths, masked, causal, inputs):
    tensors = inputs((2, 3, *lengths, 8, 4), requires_grad=True)
    seen = pattern(*lengths, stride, causal)
    mask = torch.rand(2, 1, *lengths, generator=torch.Generator().manual_seed(1)) > 0.3

    def ours(*qkv):
        return attention(*qkv, stride=stride, causal=causal, mask=mask if masked else None)

    def theirs(*qkv):
        return standard(*qkv, mask=seen & mask if masked else seen)

    assert (ours(*tensors) - theirs(*tensors)).abs().max() <= 1e-13
    for got, expected in zip(gradients(ours, tensors), gradients(theirs, tensors), strict=True):
        assert (got - expected).abs().max() <= 1e-12


@MODES
@OVER_LENGTHS
@OVER_STRIDES
def test_the_model_over_strides(stride, lengths, dtype, training, causal, inputs, peaks):
    tensors = inputs((2, 2, *lengths, 8, 12), dtype)
    real, program = peaks(training, tensors, stride=stride, causal=causal)
    assert (real[0], program[0]) == (real[1], program[1])


@BOTH
@pytest.mark.parametrize("lengths", [(33, 50), (50, 20)], ids=str)
def test_the_model_with_a_mask(lengths, training, causal, inputs, peaks):
    tensors = inputs((2, 2, *lengths, 8, 12), torch.float32)
    mask = torch.ones(lengths, dtype=torch.bool)
    real, program = peaks(training, tensors, mask=mask, causal=causal, stride=5)
    assert (real[0], program[0]) == (real[1], program[1])


@BOTH
@DTYPES
@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 4, 4, 1, 64), (1, 1, 4, 4, 64, 1), (1, 1, 300, 1, 64, 1), (1, 1, 1, 1, 1, 500)],
    ids=str,
)
def test_the_model_at_the_edges(sizes, dtype, training, inputs, peaks):
    real, program = peaks(training, inputs(sizes, dtype))
    assert (real[0], program[0]) == (real[1], program[1])


def test_the_stride_is_the_root_of_the_length(inputs):
    q, k, v = inputs((1, 2, 50, 50, 4, 4))
    assert torch.equal(attention(q, k, v), attention(q, k, v, stride=8))
    assert (
        MODEL.forward.defaults == MODEL.training.defaults == {"causal": 0, "mask": 0, "stride": 0}
    )


@pytest.mark.parametrize("mode", ["forward", "training"])
def test_memory_grows_with_N_not_its_square(mode, causal):
    """At the squares of powers of two, where blocks have no remainder, of tokens by the million."""

    def at(N):
        sizes = {"B": 1, "H": 8, "N": N, "d": 64, "dtype": "float16", "causal": causal}
        return getattr(MODEL, mode).peak(gather([Source("the test", sizes)]))

    small, large = at(2**16), at(2**20)
    assert large < 16.2 * small


@DTYPES
def test_what_is_saved(dtype, inputs, saved):
    q, k, v = inputs((2, 3, 33, 50, 8, 4), dtype, requires_grad=True)
    out, tensors = saved(lambda: attention(q, k, v))
    assert [x.data_ptr() for x in tensors[:4]] == [x.data_ptr() for x in (q, k, v, out)]
    (lse,) = tensors[4:]
    assert lse.shape == (2, 3, 33, 1)
    assert lse.dtype == torch.promote_types(dtype, torch.float32)


@pytest.mark.parametrize("how", ["no_grad", "no requires_grad", "training"])
def test_what_is_retained(how, inputs, cpu):
    q, k, v = inputs((2, 3, 33, 50, 8, 4), torch.float32, requires_grad=how != "no requires_grad")
    with torch.set_grad_enabled(how != "no_grad"), window(cpu) as opened:
        out = attention(q, k, v)
    lse = 2 * 3 * 33 * 4 if how == "training" else 0
    assert opened.measurement.retained_bytes == out.nbytes + lse


@pytest.mark.parametrize("size", [0, -1])
def test_a_stride_goes_ahead(size, inputs):
    with pytest.raises(ValueError, match=f"^stride must be at least 1, got {size}$"):
        attention(*inputs((1, 1, 3, 3, 2, 2)), stride=size)


def test_a_mask_gets_no_gradient(inputs):
    mask = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    message = "^mask must not require a gradient in strided, got one that does$"
    with pytest.raises(ValueError, match=message):
        attention(*inputs((1, 1, 3, 3, 2, 2)), mask=mask)

"""Sliding window: what is seen, over windows and blocks, and memory that does not know N²."""

from __future__ import annotations

import pytest
import torch

from pytest_attnmem.kernels import KERNELS
from pytest_attnmem.kernels.sliding_window import BLOCK, MODEL, WINDOW, attention
from pytest_attnmem.kernels.standard import attention as standard
from pytest_attnmem.measurement.window_stack import window

#: (window, block): of one key, one query, that divide nothing, and larger than everything.
CUTS = [(1, 16), (7, 5), (20, 16), (500, 7)]
#: (N, M), and the other way round.
LENGTHS = [(33, 50), (50, 20), (1, 9)]
DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
OVER_CUTS = pytest.mark.parametrize("cut", CUTS, ids=str)
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
    return next(kernel for kernel in KERNELS if kernel.name == "sliding-window")


def pattern(N, M, width, causal):
    before = torch.arange(N)[:, None] - torch.arange(M)
    return (before.abs() < width) & (before >= 0 if causal else True)


def gradients(function, tensors):
    return torch.autograd.grad(function(*tensors).square().sum(), tensors)


@OVER_LENGTHS
@OVER_CUTS
@pytest.mark.parametrize("masked", [False, True])
def test_what_is_seen(cut, lengths, masked, causal, inputs):
    tensors = inputs((2, 3, *lengths, 8, 4), requires_grad=True)
    seen = pattern(*lengths, cut[0], causal)
    mask = torch.rand(2, 1, *lengths, generator=torch.Generator().manual_seed(1)) > 0.3
    options = {"window": cut[0], "block": cut[1], "causal": causal}
    options["mask"] = mask if masked else None

    def ours(*qkv):
        return attention(*qkv, **options)

    def theirs(*qkv):
        return standard(*qkv, mask=seen & mask if masked else seen)

    assert (ours(*tensors) - theirs(*tensors)).abs().max() <= 1e-13
    for got, expected in zip(gradients(ours, tensors), gradients(theirs, tensors), strict=True):
        assert (got - expected).abs().max() <= 1e-12


@MODES
@OVER_LENGTHS
@OVER_CUTS
def test_the_model_over_windows_and_blocks(cut, lengths, dtype, training, causal, inputs, peaks):
    tensors = inputs((2, 2, *lengths, 8, 12), dtype)
    options = {"window": cut[0], "block": cut[1], "causal": causal}
    real, program = peaks(training, tensors, **options)
    assert (real[0], program[0]) == (real[1], program[1])


@BOTH
@pytest.mark.parametrize("lengths", [(33, 50), (50, 20)], ids=str)
def test_the_model_with_a_mask(lengths, training, causal, inputs, peaks):
    tensors = inputs((2, 2, *lengths, 8, 12), torch.float32)
    mask = torch.ones(lengths, dtype=torch.bool)
    real, program = peaks(training, tensors, mask=mask, causal=causal, window=5, block=8)
    assert (real[0], program[0]) == (real[1], program[1])


@BOTH
@DTYPES
@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 4, 4, 1, 64), (1, 1, 4, 4, 64, 1), (1, 1, 300, 1, 64, 1), (1, 1, 1, 1, 1, 500)],
    ids=str,
)
def test_the_model_at_the_edges(sizes, dtype, training, inputs, peaks):
    real, program = peaks(training, inputs(sizes, dtype), window=3, block=2)
    assert (real[0], program[0]) == (real[1], program[1])


def test_defaults_are_the_functions():
    defaults = {"causal": 0, "mask": 0, "window": WINDOW, "block": BLOCK}
    assert MODEL.forward.defaults == MODEL.training.defaults == defaults


@BOTH
def test_memory_grows_with_N_not_its_square(training, causal, inputs, peaks):
    def at(N):
        tensors = inputs((1, 2, N, N, 8, 8), torch.float32)
        return peaks(training, tensors, window=8, block=16, causal=causal)[0][0]

    first, second, third = at(64), at(128), at(192)
    assert third - second == second - first


@DTYPES
def test_only_inputs_are_saved(dtype, inputs, saved):
    q, k, v = inputs((2, 3, 33, 50, 8, 4), dtype, requires_grad=True)
    _, tensors = saved(lambda: attention(q, k, v))
    assert [x.data_ptr() for x in tensors] == [x.data_ptr() for x in (q, k, v)]


@pytest.mark.parametrize("how", ["no_grad", "no requires_grad", "training"])
def test_only_the_output_is_retained(how, inputs, cpu):
    q, k, v = inputs((2, 3, 33, 50, 8, 4), torch.float32, requires_grad=how != "no requires_grad")
    with torch.set_grad_enabled(how != "no_grad"), window(cpu) as opened:
        out = attention(q, k, v)
    assert opened.measurement.retained_bytes == out.nbytes


def test_queries_far_past_the_last_key_get_zeros(inputs):
    q, k, v = inputs((1, 1, 50, 20, 4, 4))
    blind = attention(q, k, v, window=7, block=8).eq(0).all(-1)[0, 0]
    assert blind.nonzero().flatten().tolist() == list(range(26, 50))


@pytest.mark.parametrize("name", ["window", "block"])
@pytest.mark.parametrize("size", [0, -1])
def test_windows_have_keys_and_blocks_have_rows(name, size, inputs):
    with pytest.raises(ValueError, match=f"^{name} must be at least 1, got {size}$"):
        attention(*inputs((1, 1, 3, 3, 2, 2)), **{name: size})


def test_a_mask_gets_no_gradient(inputs):
    mask = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    message = "^mask must not require a gradient in sliding-window, got one that does$"
    with pytest.raises(ValueError, match=message):
        attention(*inputs((1, 1, 3, 3, 2, 2)), mask=mask)

"""Checkpointed: standard attention to the bit, and between the passes nothing but the output."""

from __future__ import annotations

import pytest
import torch

from pytest_attnmem.kernels.checkpointed import attention
from pytest_attnmem.kernels.standard import attention as standard
from pytest_attnmem.measurement.window_stack import window

SIZES = (2, 3, 33, 50, 8, 4)
MASKS = {
    "none": None,
    "bool": torch.rand(33, 50, generator=torch.Generator().manual_seed(0)) > 0.5,
    "numbers": torch.randn(50, generator=torch.Generator().manual_seed(0)),
}
MASKED = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)


def run(function, tensors, **options):
    out = function(*tensors, **options)
    return [out, *torch.autograd.grad(out.square().sum(), tensors)]


@MASKED
def test_it_is_standard_attention_to_the_bit(mask, causal, inputs):
    tensors = inputs(SIZES, torch.float32, requires_grad=True)
    options = {"causal": causal, "mask": mask}
    for got, expected in zip(
        run(attention, tensors, **options), run(standard, tensors, **options), strict=True
    ):
        assert torch.equal(got, expected)


@MASKED
def test_only_the_output_is_retained(mask, causal, inputs, cpu):
    tensors = inputs(SIZES, torch.float32, requires_grad=True)
    with window(cpu, trace=True) as opened:
        out = attention(*tensors, causal=causal, mask=mask)
    assert out.requires_grad
    assert opened.measurement.retained_bytes == out.nbytes
    del out
    with window(cpu) as opened:
        out = attention(*tensors, causal=causal, mask=mask)
    # The scale, which autograd keeps where no checkpoint can see it.
    assert opened.measurement.retained_bytes == out.nbytes + 8


def test_its_peak_is_that_of_standard(inputs, peak):
    tensors = inputs((1, 2, 64, 64, 8, 8), torch.float32, requires_grad=True)
    peaks = [
        peak(lambda f=function: torch.autograd.grad(f(*tensors).sum(), tensors))
        for function in (attention, standard)
    ]
    assert peaks[0] == peaks[1]


def test_several_calls_have_the_peak_of_one(inputs, peak):
    """Checkpoints are for this: no other call's scores are kept."""
    q, k, v = inputs((1, 1, 128, 128, 8, 8), torch.float32, requires_grad=True)

    def times(function, number):
        out = q
        for _ in range(number):
            out = function(out, k, v)
        torch.autograd.grad(out.sum(), (q, k, v))

    scores = 128 * 128 * 4
    grown = {
        function: peak(lambda: times(function, 4)) - peak(lambda: times(function, 1))  # noqa: B023
        for function in (attention, standard)
    }
    assert grown[attention] < scores
    assert grown[standard] > 2.5 * scores


def test_a_mask_of_numbers_gets_its_gradient(inputs):
    q, k, v = inputs((1, 2, 3, 4, 2, 2), requires_grad=True)
    bias = torch.randn(4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda bias, *qkv: attention(*qkv, mask=bias), (bias, q, k, v))


def test_it_can_be_differentiated_twice(inputs):
    tensors = inputs((1, 1, 3, 4, 2, 2), requires_grad=True)
    assert torch.autograd.gradgradcheck(attention, tensors)


def test_the_random_state_is_left_alone(inputs):
    tensors = inputs(SIZES, torch.float32, requires_grad=True)
    before = torch.get_rng_state()
    attention(*tensors).sum().backward()
    assert torch.equal(torch.get_rng_state(), before)

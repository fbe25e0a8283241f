"""Every kernel's memory model is its peak, to the byte."""

from __future__ import annotations

import pytest
import torch

from pytest_attnmem.kernels import KERNELS, checkpointed, flash, standard

from .references import BOTH, Case, over

# Each of (B, H, N, M, d, dv): odd ones, single ones, long and short, wide and narrow.
SHAPES = [
    (1, 1, 1, 1, 1, 1),
    (1, 1, 1, 50, 32, 16),
    (2, 2, 50, 1, 16, 32),
    (1, 1, 64, 1, 8, 64),
    (1, 1, 5, 5, 100, 3),
    (1, 1, 5, 5, 3, 100),
    (2, 3, 100, 33, 8, 24),
    (1, 2, 33, 100, 16, 8),
    (2, 4, 128, 128, 32, 32),
    (1, 2, 200, 530, 16, 16),
    (1, 1, 800, 40, 4, 8),
]
#: The corners, for all but the whole measured peak: its bytes are those of the program and scratch.
CORNERS = pytest.mark.parametrize("sizes", SHAPES[::3], ids=str)
#: Two corners for each half type: the program alone, which ``test_derived`` has in float32.
HALF = [*zip(SHAPES[::3], (torch.bfloat16, torch.float16) * 2, strict=True)]


@BOTH
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_the_model_is_the_measured_peak(kernel, causal, training, sizes, inputs, peak, cpu):
    tensors = inputs(sizes, torch.float32)
    case = Case(kernel, training, tensors, cpu, causal=causal)
    assert peak(case) == case.model.peak(case.shape, cpu.kinds)


@BOTH
@CORNERS
def test_double_types_have_scratch_of_their_own(kernel, causal, training, sizes, inputs, peak, cpu):
    case = Case(kernel, training, inputs(sizes, torch.float64), cpu, causal=causal)
    assert peak(case) == case.model.peak(case.shape, cpu.kinds)


@BOTH
@pytest.mark.parametrize(("sizes", "dtype"), HALF, ids=str)
def test_half_types_have_the_program_of_the_model(
    kernel, causal, training, sizes, dtype, inputs, peak, cpu
):
    case = Case(kernel, training, inputs(sizes, dtype), cpu, causal=causal)
    program = case.model.peak(case.shape)
    assert peak(case, trace=True) == program
    assert peak(case) >= program  # the rest is scratch, and the machine's own


@BOTH
@over([kernel for kernel in KERNELS if kernel.mask])
@pytest.mark.parametrize("planes", [(), (1, 1), (2, 1), (2, 3)], ids=str)
@pytest.mark.parametrize("sizes", [(2, 3, 20, 33, 8, 1), (2, 3, 1, 1, 1, 2)], ids=str)
def test_masks_are_in_the_model(kernel, training, planes, sizes, inputs, as_modelled):
    mask = torch.ones(*planes, *sizes[2:4], dtype=torch.bool).tril(3)
    as_modelled(kernel, training, inputs(sizes, torch.float32), mask=mask)


@BOTH
@over([standard.KERNEL, checkpointed.KERNEL])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_causal_and_mask_together_are_in_the_model(kernel, training, dtype, inputs, as_modelled):
    mask = torch.ones(33, 50, dtype=torch.bool)
    as_modelled(kernel, training, inputs((2, 3, 33, 50, 8, 4), dtype), causal=True, mask=mask)


@BOTH
@over([standard.KERNEL, flash.KERNEL])
def test_fifty_runs_give_one_number(kernel, training, inputs, peak, cpu):
    tensors = inputs((2, 2, 33, 40, 8, 8), torch.float32)
    case = Case(kernel, training, tensors, cpu, causal=True)
    assert len({peak(case) for _ in range(50)}) == 1


@over(KERNELS)
def test_a_models_phases_can_be_told_apart(kernel):
    for model in (kernel.model.forward, kernel.model.training):
        assert len({phase.name for phase in model.phases}) == len(model.phases)

"""Linear attention by chunks: chunks that do and do not divide, and what is kept of them."""

from __future__ import annotations

import pytest
import torch

from pytest_attnmem.kernels import KERNELS
from pytest_attnmem.kernels.linear_chunked import attention
from pytest_attnmem.measurement.window_stack import window

#: Against N = 33: one row, sizes that do and do not divide it, all of it, and more.
BLOCKS = [1, 7, 8, 11, 33, 64]
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@pytest.fixture
def kernel():
    return next(kernel for kernel in KERNELS if kernel.name == "linear-chunked")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_five_tensors_are_saved(dtype, inputs, saved):
    q, k, v = inputs((2, 3, 33, 50, 8, 4), dtype, requires_grad=True)
    out, kept = saved(lambda: attention(q, k, v, block=8))
    assert [x.data_ptr() for x in kept[:4]] == [x.data_ptr() for x in (q, k, v, out)]
    (norm,) = kept[4:]
    assert norm.shape == (2, 3, 33)
    assert norm.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


@pytest.mark.parametrize("how", ["no_grad", "no requires_grad", "training"])
def test_what_is_retained(how, inputs, cpu):
    q, k, v = inputs((2, 3, 33, 50, 8, 4), torch.float32, requires_grad=how != "no requires_grad")
    with torch.set_grad_enabled(how != "no_grad"), window(cpu) as opened:
        out = attention(q, k, v)
    norm_bytes = 2 * 3 * 33 * 4 if how == "training" else 0
    assert opened.measurement.retained_bytes == out.nbytes + norm_bytes


@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
def test_memory_grows_with_the_output_alone(training, inputs, peak):
    def at(N):
        tensors = inputs((1, 2, N, N, 8, 8), torch.float32, requires_grad=training)
        if training:
            return peak(lambda: attention(*tensors, block=16).sum().backward())
        return peak(lambda: attention(*tensors, block=16))

    first, second, third = at(64), at(128), at(192)
    a_row = 4 * 2 * (8 + 1)  # of the output and the sums of weights
    gradients = 4 * 2 * (8 + 8 + 8) if training else 0
    assert second - first == third - second == 64 * (a_row + gradients)

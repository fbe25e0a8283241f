"""Linear attention by chunks: chunks that do and do not divide, and what is kept of them."""

from __future__ import annotations

import pytest
import torch

from pytest_attnmem.kernels import KERNELS
from pytest_attnmem.kernels.linear_chunked import attention


@pytest.fixture
def kernel():
    return next(kernel for kernel in KERNELS if kernel.name == "linear-chunked")


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

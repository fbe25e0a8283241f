"""Linear attention by chunks and by steps: a state that does not grow."""

from __future__ import annotations

import pytest
import torch

from pytest_attnmem.kernels import KERNELS


@pytest.fixture(params=["linear-chunked", "linear-recurrent"])
def kernel(request):
    return next(kernel for kernel in KERNELS if kernel.name == request.param)


@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
def test_memory_grows_with_the_output_alone(kernel, training, inputs, peak):
    options = {"block": 16} if kernel.name == "linear-chunked" else {}

    def at(N):
        tensors = inputs((1, 2, N, N, 8, 8), torch.float32, requires_grad=training)
        if training:
            return peak(lambda: kernel.attention(*tensors, **options).sum().backward())
        return peak(lambda: kernel.attention(*tensors, **options))

    first, second, third = at(64), at(128), at(192)
    a_row = 4 * 2 * (8 + 1)  # of the output and the sums of weights
    gradients = 4 * 2 * (8 + 8 + 8) if training else 0
    assert second - first == third - second == 64 * (a_row + gradients)

"""The textbook's attention, and the numbers that two reference documents have of it."""

import math

import pytest
import torch

from pytest_attnmem.backends.primed_backend import open_primed
from pytest_attnmem.sweep.eager_attention import attention, causal_mask
from pytest_attnmem.sweep.memory import observe

MIB = 1 << 20

#: cuBLAS's before Hopper and on it, for each of two handles.
WORKSPACE, HOPPER = 8_519_680, 32 * MIB


@pytest.mark.parametrize("causal", [False, True])
def test_it_is_attention(causal):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 1, 33, 8, generator=generator, dtype=torch.float64) for _ in "qkv")
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    out = attention(q, k, v, causal_mask(33, "cpu") if causal else None)
    assert (out - expected).abs().max() <= 1e-12


@pytest.mark.parametrize(("d", "N"), [(16, 256), (128, 4096)])
def test_what_the_benchmark_has_before_the_backward_pass(case, gtx_1080, d, N):
    assert gtx_1080.workspace_bytes == 2 * WORKSPACE
    before = observe(case("textbook", N, d), gtx_1080).before_bytes + gtx_1080.workspace_bytes
    B = 8
    # Two score matrices; a float and a bool mask; q, k, v, a warm-up's copies and their gradients,
    # the copies, out and its gradient; sums, and the places of maxima in int64.
    matrices, masks, tensors, rows = 2 * B * N**2 * 4, 5 * N**2, 14 * B * N * d * 4, 3 * B * N * 4
    assert before == 2 * WORKSPACE + matrices + masks + tensors + rows


def test_the_peak_that_the_session_log_took_apart():
    """72.77 MB: the highest of a second forward pass, with B=8, N=256 and d=16."""
    hopper = open_primed("simulated:H100")
    assert hopper.workspace_bytes == 2 * HOPPER

    def peak(N):
        q, k, v = (torch.randn(8, N, 16, device="cuda", requires_grad=True) for _ in "qkv")
        loss = attention(q, k, v).sum()
        loss.backward()
        torch.cuda.reset_peak_memory_stats()
        attention(q, k, v)
        return torch.cuda.max_memory_allocated()

    def seen(N):
        hopper.backend.forget()
        return hopper.run(lambda: peak(N))[1]

    tensor, matrix, rows = 8 * 256 * 16 * 4, 8 * 256**2 * 4, 3 * 8 * 256 * 4
    gradients, loss = 3 * tensor, 512  # a block of the allocator
    assert seen(256) == 2 * HOPPER + 3 * tensor + gradients + 4 * matrix + rows + loss
    assert math.floor(seen(256) / MIB * 100) / 100 == 72.77
    assert round(seen(16384) / 1000 / MIB) == 33  # "33 GB used"

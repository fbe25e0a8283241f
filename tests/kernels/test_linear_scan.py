"""Linear attention as a scan: chunks that do and do not divide, and the states that are kept."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_attnmem.kernels import KERNELS
from pytest_attnmem.kernels.linear_scan import _scan, attention
from pytest_attnmem.measurement.window_stack import window

#: Against N = 33: one row, sizes that do and do not divide it, all of it, and more.
BLOCKS = [1, 7, 8, 11, 33, 64]
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@pytest.fixture
def kernel():
    return next(kernel for kernel in KERNELS if kernel.name == "linear-scan")


@pytest.mark.parametrize("reverse", [False, True], ids=["prefix", "suffix"])
@pytest.mark.parametrize("count", [*range(1, 18), 31, 32, 33, 100])
def test_the_scan_is_a_cumulative_sum(count, reverse):
    x = torch.arange(2 * count).view(count, 2)
    expected = x.flip(0).cumsum(0).flip(0) if reverse else x.cumsum(0)
    _scan(x, range(count)[::-1] if reverse else range(count))
    assert torch.equal(x, expected)


class Additions(TorchDispatchMode):
    """Counts additions of one tensor to another."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten.add_.Tensor
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("count", "depth"), [(1, 0), (2, 1), (3, 2), (64, 11), (1000, 18)])
def test_the_scan_is_of_logarithmic_depth(count, depth):
    with Additions() as additions:
        _scan(torch.ones(count, 1), range(count))
    assert additions.count == depth


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_checkpoints_are_saved(dtype, inputs, saved):
    q, k, v = inputs((2, 3, 33, 50, 8, 4), dtype, requires_grad=True)
    out, kept = saved(lambda: attention(q, k, v, block=8))
    assert [x.data_ptr() for x in kept[:4]] == [x.data_ptr() for x in (q, k, v, out)]
    factor, states = kept[4:]
    assert factor.shape == (2, 3, 33, 1)
    assert states.shape == (5, 2 * 3, 8, 4 + 1)  # before rows 0, 8, 16, 24 and 32
    assert states[0].eq(0).all()
    assert states.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


@pytest.mark.parametrize("how", ["no_grad", "no requires_grad", "training"])
def test_what_is_retained(how, inputs, cpu):
    q, k, v = inputs((2, 3, 33, 50, 8, 4), torch.float32, requires_grad=how != "no requires_grad")
    with torch.set_grad_enabled(how != "no_grad"), window(cpu) as opened:
        out = attention(q, k, v, block=8)
    kept = 2 * 3 * (33 + 5 * 8 * 5) * 4 if how == "training" else 0  # factors, states
    assert opened.measurement.retained_bytes == out.nbytes + kept


@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
def test_memory_grows_with_the_length_not_its_square(training, inputs, peak):
    def at(N):
        tensors = inputs((1, 2, N, N, 8, 8), torch.float32, requires_grad=training)
        if training:
            return peak(lambda: attention(*tensors, block=8).sum().backward())
        return peak(lambda: attention(*tensors, block=8))

    first, second, third = at(64), at(128), at(192)
    assert third - second == second - first > 0

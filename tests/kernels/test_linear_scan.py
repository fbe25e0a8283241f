"""Linear attention as a scan: chunks that do and do not divide, and the states that are kept."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_attnmem.kernels import KERNELS
from pytest_attnmem.kernels.linear_scan import _scan


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

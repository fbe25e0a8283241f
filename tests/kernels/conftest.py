"""What the tests over ``KERNELS`` share: a row, inputs, and a measured peak."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from pytest_attnmem.backends import Backend, open_backend
from pytest_attnmem.kernels import KERNELS, Kernel
from pytest_attnmem.measure import window

Sizes = tuple[int, int, int, int, int, int]
Inputs = Callable[..., tuple[Tensor, Tensor, Tensor]]
Peak = Callable[..., int]

ON_CPU = [kernel for kernel in KERNELS if "cpu" in kernel.devices]


@pytest.fixture(params=ON_CPU, ids=lambda kernel: kernel.name)
def kernel(request: pytest.FixtureRequest) -> Kernel:
    """Each row that runs here."""
    row: Kernel = request.param
    return row


@pytest.fixture(params=(False, True), ids=("full", "causal"))
def causal(request: pytest.FixtureRequest) -> bool:
    """Each value of ``causal`` that the row knows."""
    return bool(request.param)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the values of ``causal`` that a row does not know."""

    def known(item: pytest.Item) -> bool:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        return (
            not {"kernel", "causal"} <= set(params) or params["causal"] in params["kernel"].causal
        )

    items[:] = [item for item in items if known(item)]


@pytest.fixture
def inputs(kernel: Kernel) -> Inputs:
    """Makes q, k and v of (B, H, N, M, d, dv), the same each time."""

    def make(
        sizes: Sizes, dtype: torch.dtype = torch.float64, requires_grad: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        B, H, N, M, d, dv = fit(kernel, sizes)
        random = torch.Generator().manual_seed(0)
        q, k, v = (
            torch.randn(shape, generator=random, dtype=torch.float64)
            .to(dtype)
            .requires_grad_(requires_grad)
            for shape in ((B, H, N, d), (B, H, M, d), (B, H, M, dv))
        )
        return q, k, v

    return make


def fit(kernel: Kernel, sizes: Sizes) -> Sizes:
    """``sizes``, with dv = d for a kernel that needs it."""
    return (*sizes[:5], sizes[4]) if kernel.equal_head_dims else sizes


@pytest.fixture(scope="module")
def cpu() -> Iterator[Backend]:
    """The cpu backend, primed; one thread, whose number the models take as a symbol anyway."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    backend = open_backend("cpu")
    backend.prime()
    with window(backend, trace=True):
        torch.ones(1)
    gc.collect()
    gc.freeze()  # a collection before each window costs 70 ms otherwise
    yield backend
    gc.unfreeze()
    torch.set_num_threads(threads)


@pytest.fixture
def peak(cpu: Backend) -> Peak:
    """Peak bytes of a call, as the allocator saw it, or with ``trace`` the dispatcher."""

    def measured(function: Callable[[], object], trace: bool = False) -> int:
        with window(cpu, trace=trace) as opened:
            kept = function()
        del kept
        measurement = opened.measurement
        assert measurement is not None
        assert measurement.unmeasured is None
        assert measurement.peak_bytes is not None
        return measurement.peak_bytes

    return measured

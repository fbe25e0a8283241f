"""The fixtures of the tests over ``KERNELS``: a row, inputs, and a measured peak."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_attnmem.backends.primed_backend import PrimedBackend, open_primed
from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.kernels import KERNELS, Kernel
from pytest_attnmem.measurement.protocol import BackendProtocol
from pytest_attnmem.measurement.window_stack import window

from .programs import poisoned
from .references import Case

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
def inputs(request: pytest.FixtureRequest) -> Inputs:
    """Makes q, k and v of (B, H, N, M, d, dv), the same each time; dv = d where a row needs it."""
    kernel = request.getfixturevalue("kernel") if "kernel" in request.fixturenames else None

    def make(
        sizes: Sizes, dtype: torch.dtype = torch.float64, requires_grad: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        B, H, N, M, d, dv = sizes
        if kernel is not None and kernel.equal_head_dims:
            dv = d
        random = torch.Generator().manual_seed(0)
        q, k, v = (
            torch.randn(shape, generator=random, dtype=torch.float64)
            .to(dtype)
            .requires_grad_(requires_grad)
            for shape in ((B, H, N, d), (B, H, M, d), (B, H, M, dv))
        )
        return q, k, v

    return make


@pytest.fixture(scope="module")
def cpu() -> Iterator[BackendProtocol]:
    """The cpu backend, primed; one thread, whose number the models take as a symbol anyway."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    backend = open_backend("cpu")
    backend.prime()
    with window(backend, trace=True):
        torch.ones(1)
    yield backend
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def simulated() -> PrimedBackend:
    """An H100 that nobody has."""
    return open_primed("simulated:H100")


@pytest.fixture
def peak(cpu: BackendProtocol) -> Peak:
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


@pytest.fixture
def as_modelled(peak: Peak, cpu: BackendProtocol) -> Callable[..., None]:
    """Checks the peak of a :class:`Case`, and that of the program alone, against its model."""

    def check(kernel: Kernel, training: bool, tensors: Any, *more: Any, **options: Any) -> None:
        case = Case(kernel, training, tensors, cpu, *more, **options)
        assert peak(case) == case.model.peak(case.shape, cpu.kinds)
        assert peak(case, trace=True) == case.model.peak(case.shape)

    return check


@pytest.fixture
def poison() -> Iterator[None]:
    """Fill what ``torch.empty`` returns with NaN."""
    with poisoned():
        assert torch.empty(1).isnan()
        yield

"""A program's tensors take the same bytes simulated, on the CPU, and in its model."""

import pytest
import torch

from pytest_attnmem.backends.primed_backend import PrimedBackend
from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.backends.simulated import Simulated, program_only
from pytest_attnmem.kernels import KERNELS
from pytest_attnmem.profiles import find_profile
from pytest_attnmem.symbols.attention_shape import Source, gather

CASES = [
    pytest.param(kernel, causal, training, id=f"{kernel.name}-{causal}-{training}")
    for kernel in KERNELS
    for causal in kernel.causal
    for training in (False, True)
    if not kernel.name.startswith("sdpa") and "cpu" in kernel.devices
]


@pytest.fixture(scope="module")
def cpu():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    backend = open_backend("cpu")
    backend.prime()
    yield backend
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def without_scratch():
    return Simulated(find_profile("A100-80GB"), program_only)


@pytest.mark.parametrize(("kernel", "causal", "training"), CASES)
def test_the_peak_is_the_same_everywhere(cpu, without_scratch, kernel, causal, training):
    B, H, N, d = 2, 2, 80, 16
    symbols = {"B": B, "H": H, "N": N, "d": d, "causal": int(causal), "threads": 1}
    shape = gather([Source("test", {**symbols, "dtype": "float32"})])
    model = kernel.model.training if training else kernel.model.forward

    def peak(backend):
        given = [torch.ones(B, H, N, d, requires_grad=training) for _ in "qkv"]

        def program():
            if training:
                kernel.attention(*given, causal=causal).sum().backward()
            else:
                kernel.attention(*given, causal=causal)

        backend.forget()
        with torch.set_grad_enabled(training):
            return PrimedBackend(backend, 0).run(program)[0].peak_bytes

    simulated = peak(without_scratch)
    assert simulated == model.peak(shape)
    if model.peak(shape, ("cpu",)) == model.peak(shape):
        peak(cpu)  # PyTorch allocates some memory on first use
        assert simulated == peak(cpu)

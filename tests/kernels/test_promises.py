"""Kernels keep the promises of their docstrings on memory: linear growth, no hidden tensors."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial

import pytest
import torch

from pytest_attnmem.backends.primed_backend import PrimedBackend
from pytest_attnmem.budgets.growth_points import grow
from pytest_attnmem.kernels import KERNELS, Kernel
from pytest_attnmem.measurement.qkv_inputs import qkv
from pytest_attnmem.symbols.attention_shape import Source, gather

from .programs import saved
from .references import BOTH, over

NAMED = {kernel.name: kernel for kernel in KERNELS}
LONG = 65536
#: Lengths longer than a window, and lengths of few steps; for other kernels, several blocks.
LENGTHS = {"sliding-window": (768, 896, 1024, 1152), "linear-recurrent": (16, 24, 32, 40)}
#: The kernels whose docstring promises O(N·d). By default all blocks of block-sparse are active,
#: and a tile of strided is √N wide; CUDA's flash splits the keys of some lengths.
LINEAR = {
    kernel.name: LENGTHS.get(kernel.name, (256, 384, 512, 640))
    for kernel in KERNELS
    if re.search(r"^ +O\(N·\(?d( [^N]*)?\)+ memory", kernel.attention.__doc__, re.MULTILINE)
    and kernel.name not in ("block-sparse", "sdpa-flash", "strided")
}
#: Large blocks, of which there are few at 65 536; they take more memory than those by default.
FEW = {
    "flash": {"block_q": 4096, "block_k": 4096},
    "chunked": {"chunk_q": 4096, "chunk_k": 4096},
    "sliding-window": {"block": 1024},
    "linear-chunked": {"block": 1024},
}


@dataclass
class Run:
    """One pass of a kernel, or both, of one head."""

    kernel: Kernel
    primed: PrimedBackend
    training: bool = False
    options: dict[str, object] = field(default_factory=dict)
    dtype: torch.dtype = torch.bfloat16

    def __call__(self, N: int) -> object:
        if self.training:
            return self.forward(N, True).sum().backward()
        return self.forward(N, False)

    def forward(self, N: int, requires_grad: bool) -> torch.Tensor:
        device = self.primed.backend.device
        inputs = qkv(1, 1, N, 64, dtype=self.dtype, device=device, requires_grad=requires_grad)
        return self.kernel.attention(*inputs, causal=causal(self.kernel), **self.options)

    def peak(self, N: int) -> int:
        measured = self.primed.run(lambda: self(N))[0]
        assert measured.unmeasured is None
        return measured.peak_bytes


def causal(kernel):
    return False not in kernel.causal


def modelled(kernel, training, N, **options):
    """The peak by a kernel's model, as :class:`Run` runs it."""
    model = kernel.model.training if training else kernel.model.forward
    known = {"B": 1, "H": 1, "N": N, "d": 64, "dtype": "bfloat16", "causal": int(causal(kernel))}
    return model.peak(gather([Source("the test", {**known, **options})]), ("cuda",))


@BOTH
@pytest.mark.parametrize("name", LINEAR)
def test_memory_is_linear_by_contract(name, training, simulated):
    run = Run(NAMED[name], simulated, training)
    growth = grow(lambda call: simulated.run(call)[0], run, {"N": LINEAR[name]}, "peak")
    growth.assert_within("O(N*d)")
    assert growth.degree("N") == 1


def test_a_contract_tells_those_that_are_not(simulated):
    run = Run(NAMED["standard"], simulated)
    sizes = {"N": (128, 256, 384, 512, 640)}
    assert grow(lambda call: simulated.run(call)[0], run, sizes, "peak").degree("N") == 2


@BOTH
@pytest.mark.parametrize("name", [*FEW, "flash-triton", "linear", "linear-scan"])
def test_at_65536_it_is_below_a_hundredth_of_standards(name, training, simulated):
    standard = Run(NAMED["standard"], simulated, training).peak(LONG)
    assert standard == modelled(NAMED["standard"], training, LONG)
    options = FEW.get(name, {})
    found = Run(NAMED[name], simulated, training, options).peak(LONG)
    assert found == modelled(NAMED[name], training, LONG, **options)
    assert 100 * found < standard


@BOTH
@pytest.mark.parametrize("name", LINEAR)
def test_at_65536_so_it_is_by_default(name, training):
    """The models answer, which agree with the simulation above: it takes long at this length."""
    standard = modelled(NAMED["standard"], training, LONG)
    assert 100 * modelled(NAMED[name], training, LONG) < standard


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", ["flash", "flash-triton", "sdpa-flash"])
def test_flash_saves_inputs_output_and_one_vector(name, dtype, simulated):
    if (name, dtype) == ("sdpa-flash", torch.float32):
        pytest.skip("CUDA's own flash is for half types")
    run = Run(NAMED[name], simulated, dtype=dtype)
    measured, (out, kept) = simulated.run(lambda: saved(lambda: run.forward(320, True)))
    floating = [(x.shape, x.dtype) for x in kept if x.is_floating_point()]
    assert floating.count(((1, 1, 320, 64), dtype)) == 4
    assert floating.count(((1, 1, 320), torch.float32)) == 1
    assert len(floating) == 5
    assert measured.retained_bytes == out.nbytes + 320 * 4 + RANDOM.get(name, 0)


#: The state of dropout, which there is none of: a seed, an offset, and a number that is not used.
RANDOM = {"sdpa-flash": 16 + 8}


@over(KERNELS)
@pytest.mark.parametrize("how", ["no_grad", "no requires_grad"])
def test_without_gradients_nothing_but_the_output_is_retained(kernel, how, simulated):
    sizes = {"dtype": torch.bfloat16, "device": simulated.backend.device}

    def forward(masked, **options):
        inputs = qkv(2, 3, 20, 16, **sizes, requires_grad=how == "no_grad")
        if masked:
            options = {"mask": torch.ones(20, 20, dtype=torch.bool, device=sizes["device"])}
        with torch.set_grad_enabled(how != "no_grad"):
            return kernel.attention(*inputs, **options)

    calls = [partial(forward, False, causal=known) for known in kernel.causal]
    for call in calls + [partial(forward, True)] * kernel.mask:
        measured, out = simulated.run(call)
        assert measured.retained_bytes == out.nbytes == 2 * 3 * 20 * 16 * 2

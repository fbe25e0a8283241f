"""Profilers on the null device: they run, and count nothing as unknown."""

from pathlib import Path

from pytest_attnmem.nulldevice import build, elf, torch_build

PROFILED = """
import torch
from torch import profiler
from torch.autograd.profiler import emit_nvtx, profile
x = torch.randn(64, 64, device="cuda", requires_grad=True)
def peak():
    torch.cuda.reset_peak_memory_stats()
    (x @ x).relu().sum().backward()
    return torch.cuda.max_memory_allocated()
peak()
bare, found = peak(), []
def profiled(by):
    with by as run:
        found.append(peak() - bare)
    if hasattr(run, "key_averages"):
        found.append([e.count for e in run.key_averages() if e.key == "aten::mm"])
profiled(profiler.profile())
profiled(profiler.profile(activities=[profiler.ProfilerActivity.CUDA]))
profiled(profiler.profile(profile_memory=True, record_shapes=True, with_stack=True))
profiled(profiler.profile(schedule=profiler.schedule(wait=0, warmup=0, active=1)))
profiled(profile(use_device="cuda"))
profiled(emit_nvtx())
profiled(torch.cuda.profiler.profile())
profiled(torch.cuda.nvtx.range("a range"))
answer(found, counts.unknown_calls())
"""


def test_a_profiled_program_has_its_bytes_and_its_operators(under):
    seen = [3]  # one product of the forward pass, and two of the backward pass
    found = [*(0, seen), *(0, []), *(0, seen), *(0, seen), *(0, seen), 0, 0, 0]
    assert under(PROFILED, ATTNMEM_TEST="a process of its own") == (found, {})


def test_every_function_of_cupti_that_pytorch_calls_is_of_the_runtime():
    """NVIDIA's own, asked on the null device, crashes the process."""
    folder = Path(torch_build.find().libraries[0]).parent
    called = {name for name in elf.undefined(folder / "libtorch_cpu.so") if "cupti" in name}
    assert called
    assert called <= elf.defined(build.build() / build.LIBRARY)

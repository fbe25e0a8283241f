"""Measures the speed of the bundled kernels as ratios to standard attention, in one run.

    python benchmarks/kernels.py [--rounds 7] [--threads 2] [--json PATH]

On the CPU every kernel is timed against standard attention, in turns, so that a machine that slows
down slows both; of each the least of the rounds counts. On a GPU flash_triton is held to the flash
backend of ``scaled_dot_product_attention``. Exits with 1 if a ratio that is required is missed.
Other work on the machine moves the numbers, most where threads wait for each other: the load
average is printed beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from tabulate import tabulate
from torch import Tensor

from pytest_attnmem.kernels import KERNELS, Kernel, flash_triton, sdpa, standard
from pytest_attnmem.nulldevice.launch import present

#: B, H and d of the CPU's rows, in float32.
SIZES = (1, 2, 64)
#: Where every kernel is timed, forward and backward.
LENGTH = 2048
#: A kernel, N, and the most that its forward on the CPU may take, as a multiple of standard's.
AT_MOST = (
    ("flash", 4096, 2.0),
    ("chunked", 4096, 2.0),
    ("linear-chunked", 2048, 1.0),
    ("linear-chunked", 4096, 1.0),
    ("linear-chunked", 8192, 1.0),
)
#: The least throughput of flash_triton on a GPU, as a share of SDPA flash's.
AT_LEAST = {"forward": 0.6, "training": 0.5}

Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel's ratio at one size, and the required ratio."""

    kernel: str
    run: str
    sizes: str
    ratio: float
    required: str = ""
    ok: bool = True

    @property
    def cells(self) -> tuple[str, ...]:
        """The printed cells."""
        verdict = ("yes" if self.ok else "NO") if self.required else ""
        return self.kernel, self.run, self.sizes, f"{self.ratio:.2f}", self.required, verdict


def main() -> int:
    """Measures and prints the ratios; returns 1 if a required ratio is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="PATH", help="leave the CPU's ratios there")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"load average before: {load()}")
    rows, kernels = [*required(options.rounds)], {}
    for kernel in KERNELS:
        if "cpu" in kernel.devices:
            rounds = max(3, options.rounds // 2)
            kernels[kernel.name] = ratios = {
                run: cpu_ratio(kernel, LENGTH, run, rounds) for run in AT_LEAST
            }
            rows += [Row(kernel.name, run, f"N={LENGTH}", ratio) for run, ratio in ratios.items()]
    if torch.cuda.is_available() and not present():
        rows += gpu(options.rounds)
    else:
        print("no GPU at hand: flash_triton against SDPA's flash was not measured\n")
    headers = ("kernel", "run", "sizes", "ratio", "required", "ok")
    print(tabulate([row.cells for row in rows], headers, disable_numparse=True))
    print(f"\nCPU: time to standard's, threads: {options.threads}, load average after: {load()}")
    if options.json:
        environment = {"threads": options.threads, "torch": torch.__version__.partition("+")[0]}
        found = {
            "environment": environment,
            "kernels": {
                name: {run: round(ratio, 4) for run, ratio in ratios.items()}
                for name, ratios in kernels.items()
            },
        }
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0 if all(row.ok for row in rows) else 1


def load() -> str:
    """Returns the load average of the last 1, 5 and 15 minutes; other work moves the numbers."""
    return ", ".join(f"{number:.1f}" for number in os.getloadavg())


def required(rounds: int) -> Iterator[Row]:
    """Yields the CPU's forward ratios that have a limit."""
    named = {kernel.name: kernel for kernel in KERNELS}
    for name, length, most in AT_MOST:
        ratio = cpu_ratio(named[name], length, "forward", rounds)
        # As fast as standard is not faster.
        ok, sign = (ratio < most, "<") if most == 1 else (ratio <= most, "≤")
        yield Row(name, "forward", f"N={length}", ratio, f"{sign} {most:g}", ok)


def cpu_ratio(kernel: Kernel, length: int, run: str, rounds: int) -> float:
    """Returns a kernel's time divided by the time of standard attention."""
    if kernel.attention is standard.attention:
        return 1.0
    B, H, d = SIZES
    tensors = inputs((B, H, length, d), "cpu", torch.float32, run)
    causal = kernel.always_causal
    return in_turns(
        passes(lambda *qkv: kernel.attention(*qkv, causal=causal), tensors),
        passes(standard.attention, tensors),
        wall_clock,
        rounds,
    )


def gpu(rounds: int) -> Iterator[Row]:
    """Yields flash_triton's throughput divided by SDPA flash's, in bfloat16."""
    for d in (64, 128):
        for length in (4096, 8192, 16384):
            for run, least in AT_LEAST.items():
                tensors = inputs((2, 16, length, d), "cuda", torch.bfloat16, run)
                theirs, ours = (
                    passes(attention, tensors) for attention in (sdpa.flash, flash_triton.attention)
                )
                ratio = in_turns(theirs, ours, device_clock, 3 * rounds)
                sizes = f"N={length} d={d}"
                yield Row("flash-triton", run, sizes, ratio, f"≥ {least:g}", ratio >= least)


def inputs(
    shape: tuple[int, int, int, int], device: str, dtype: torch.dtype, run: str
) -> list[Tensor]:
    """Returns q, k and v."""
    return [
        torch.randn(shape, device=device, dtype=dtype, requires_grad=run == "training")
        for _ in "qkv"
    ]


def passes(attention: Callable[..., Tensor], tensors: list[Tensor]) -> Call:
    """Returns a call of the forward pass, and of backward if the tensors require gradients."""

    def call() -> object:
        out = attention(*tensors)
        return torch.autograd.grad(out.sum(), tensors) if out.requires_grad else out

    return call


def in_turns(one: Call, other: Call, clock: Callable[[Call], float], rounds: int) -> float:
    """Returns the least time of one call divided by the least time of the other, after warm-up."""
    one(), other()
    times = [(clock(one), clock(other)) for _ in range(rounds)]
    ours, theirs = map(min, zip(*times, strict=True))
    return ours / theirs


def wall_clock(call: Call) -> float:
    """Returns the time of a call in seconds."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def device_clock(call: Call) -> float:
    """Returns the time of a call in milliseconds, by the device's clock."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


if __name__ == "__main__":
    sys.exit(main())

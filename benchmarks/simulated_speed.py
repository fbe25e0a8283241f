"""Measures the speed of simulation against the null device.

    python benchmarks/simulated_speed.py [--rounds 5] [--null PYTHON]

``PYTHON`` is an interpreter with the CUDA build of torch; without it the simulated times are
printed alone. The programs are a training step of Llama and the small ones of the null device's
tests. Each number is CPU time, the least of the rounds: of a fresh process from its start, imports
included, and of a second measurement in it. Nothing here fails: the numbers are for reading, and
the ratios are what carries over to other machines.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from tabulate import tabulate

PROGRAMS = Path(__file__).parents[1] / "tests" / "null"
#: Llama-3.2-1B.
LLAMA = SimpleNamespace(
    layers=16, hidden=2048, heads=32, kv_heads=8, inner=8192, vocabulary=128_256, tokens=8192
)


def llama_step() -> None:
    """A training step in bfloat16 with flash attention and AdamW; the model is made inside."""
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.nn.attention import SDPBackend, sdpa_kernel

    size = LLAMA
    made = {"device": "cuda", "dtype": torch.bfloat16}
    width = size.hidden // size.heads

    def linear(inputs: int, outputs: int) -> nn.Linear:
        return nn.Linear(inputs, outputs, bias=False, **made)

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            narrow = size.kv_heads * width
            self.norms = nn.ModuleList(nn.RMSNorm(size.hidden, **made) for _ in range(2))
            self.q, self.o = linear(size.hidden, size.hidden), linear(size.hidden, size.hidden)
            self.k, self.v = linear(size.hidden, narrow), linear(size.hidden, narrow)
            self.gate, self.up = linear(size.hidden, size.inner), linear(size.hidden, size.inner)
            self.down = linear(size.inner, size.hidden)

        def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
            """[B, N, hidden] → the same."""
            h = self.norms[0](x)
            q, k, v = (
                project(h).unflatten(-1, (-1, width)).transpose(1, 2)
                for project in (self.q, self.k, self.v)
            )
            q, k = (t * cos + turned(t) * sin for t in (q, k))
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + self.o(mixed.transpose(1, 2).flatten(2))
            h = self.norms[1](x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))

    def turned(x: torch.Tensor) -> torch.Tensor:
        left, right = x.chunk(2, -1)
        return torch.cat((-right, left), -1)

    embedding = nn.Embedding(size.vocabulary, size.hidden, **made)
    layers = nn.ModuleList(Layer() for _ in range(size.layers))
    norm = nn.RMSNorm(size.hidden, **made)
    parameters = [*embedding.parameters(), *layers.parameters(), *norm.parameters()]
    optimizer = torch.optim.AdamW(parameters)
    places = torch.arange(size.tokens, device="cuda").float()[:, None]
    angles = places / 500_000 ** (torch.arange(0, width, 2, device="cuda").float() / width)
    cos, sin = (f(angles.repeat(1, 2)).bfloat16() for f in (torch.cos, torch.sin))
    tokens = torch.zeros(1, size.tokens, dtype=torch.long, device="cuda")
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        x = embedding(tokens)
        for layer in layers:
            x = layer(x, cos, sin)
        logits = norm(x) @ embedding.weight.T
        F.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()


def programs() -> dict[str, Callable[[], object]]:
    """Returns the Llama step and the small programs of the null device's tests."""
    sys.path.insert(0, str(PROGRAMS))
    import workloads
    import workloads_held_out

    return {"llama": llama_step, **workloads.WORKLOADS, **workloads_held_out.WORKLOADS}


def child(backend: str, name: str) -> None:
    """Prints the seconds of the process until its first measurement ended, and of a second one."""
    from pytest_attnmem import measure

    program = programs()[name]
    peak = measure(program, backend=backend).peak_bytes
    first = cpu_seconds()
    measure(program, backend=backend)
    print(json.dumps([first, cpu_seconds() - first, peak]), flush=True)
    os._exit(0)


def cpu_seconds() -> float:
    """Returns the CPU time of this process since it started, in user mode."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def timed(python: str, backend: str, name: str, rounds: int) -> list[float]:
    """Returns the least seconds of a fresh process and of a second measurement, and the peak."""
    command = [python, str(Path(__file__).resolve()), "--child", backend, name]
    if backend.startswith("null"):
        run = ["-m", "pytest_attnmem.cli", "run", "--device", backend.partition(":")[2], "--"]
        command = [python, *run, *command[1:]]
    found = []
    for _ in range(rounds):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
        if done.returncode or not lines:
            sys.exit(f"{' '.join(command)} failed")
        found.append(json.loads(lines[-1]))
    return [*map(min, zip(*found, strict=True))]


def main() -> None:
    """Measures everything and prints one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--null", metavar="PYTHON", help="an interpreter with the CUDA build")
    parser.add_argument("--small", type=int, default=0, help="only so many small programs")
    parser.add_argument("--child", nargs=2, metavar=("BACKEND", "PROGRAM"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
    names = [name for name in programs() if name != "encoder_decoder"]  # it reads values
    names = names[: options.small + 1] if options.small else names
    rows = []
    for name in names:
        ours = timed(sys.executable, "simulated:H100", name, options.rounds)
        theirs = timed(options.null, "null:H100", name, options.rounds) if options.null else None
        if theirs and theirs[2] != ours[2]:
            print(f"{name}: {ours[2]} bytes simulated, {theirs[2]} on null", file=sys.stderr)
        rows.append((name, *ours[:2], *(theirs[:2] if theirs else (float("nan"),) * 2)))
    small = [*zip(*[row[1:] for row in rows[1:]], strict=True)]
    rows = [rows[0], (f"median of {len(rows) - 1} small programs", *map(statistics.median, small))]
    rows = [(*row, row[1] / row[3], row[2] / row[4]) for row in rows]
    headers = ("program", "process s", "again s", "null process s", "null again s")
    print(tabulate(rows, (*headers, "of null", "again"), floatfmt=".3f"))


if __name__ == "__main__":
    main()

"""Measures the cost of simulation against bare fake tensors and PyTorch's memory tracker.

    python benchmarks/simulate.py [--rounds 7]

The same bodies run under ``FakeTensorMode`` alone, under it and ``MemTracker``, and simulated, in
turns, so that a machine that slows down slows all of them; the least of the rounds counts. Nothing
here fails: the numbers are for reading, and the ratios are what carries over to other machines.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from tabulate import tabulate
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from pytest_attnmem.backends.primed_backend import PrimedBackend
from pytest_attnmem.backends.simulated import Simulated
from pytest_attnmem.profiles import find_profile

Body = Callable[[], object]


def attention(length: int = 1024) -> None:
    """Standard attention, forward and backward."""
    q, k, v = (torch.empty(1, 8, length, 64, requires_grad=True) for _ in "qkv")
    weights = (q @ k.mT * 64**-0.5).softmax(-1)
    (weights @ v).sum().backward()


def layers() -> None:
    """A chain of small layers without gradients."""
    x, weight = torch.empty(64, 64), torch.empty(64, 64)
    with torch.no_grad():
        for _ in range(60):
            x = F.gelu(x @ weight) + x


def encoder() -> None:
    """A training step of an encoder layer."""
    layer = nn.TransformerEncoderLayer(256, 4, batch_first=True)
    optimizer = torch.optim.AdamW(layer.parameters(), foreach=False)
    layer(torch.empty(4, 128, 256)).sum().backward()
    optimizer.step()


class Gpt2(nn.Module):
    """GPT-2 small: 12 layers, 12 heads, 768 wide; heads of plain attention, weights tied."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(50_257, 768), nn.Embedding(1024, 768)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm": nn.LayerNorm(768),
                    "qkv": nn.Linear(768, 3 * 768),
                    "out": nn.Linear(768, 768),
                    "norm2": nn.LayerNorm(768),
                    "up": nn.Linear(768, 4 * 768),
                    "down": nn.Linear(4 * 768, 768),
                }
            )
            for _ in range(12)
        )
        self.norm = nn.LayerNorm(768)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """[B, N] → [B, N, 50257]."""
        batch, length = ids.shape
        x = self.tokens(ids) + self.places(torch.arange(length, device=ids.device))
        future = torch.ones(length, length, dtype=torch.bool, device=ids.device).triu(1)
        for block in self.blocks:
            heads = block["qkv"](block["norm"](x)).view(batch, length, 3, 12, 64)
            q, k, v = heads.permute(2, 0, 3, 1, 4)
            weights = (q @ k.mT / 8).masked_fill(future, float("-inf")).softmax(-1)
            mixed = F.dropout(weights, 0.1) @ v
            x = x + F.dropout(block["out"](mixed.transpose(1, 2).flatten(2)), 0.1)
            x = x + F.dropout(block["down"](F.gelu(block["up"](block["norm2"](x)))), 0.1)
        return self.norm(x) @ self.tokens.weight.T


def gpt2() -> None:
    """Its training step: batch 8, 1024 tokens, AdamW."""
    model = Gpt2().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.zeros(8, 1024, dtype=torch.long, device="cuda")
    F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
    optimizer.step()


def main() -> None:
    """Measure everything and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    large = Simulated(replace(find_profile("B200"), memory_bytes=1 << 50))
    simulated = Simulated(find_profile("A100-80GB"))
    for body in (attention, layers, encoder):
        bare, tracked, ours = compare(body, simulated, options.rounds)
        rows.append((body.__name__, bare, tracked, ours, ours / bare, tracked / ours))
    headers = ("body", "fake ms", "MemTracker ms", "simulated ms", "of fake", "MemTracker over it")
    print(tabulate(rows, headers, floatfmt=("", ".2f", ".2f", ".2f", ".2f", ".1f")))
    print()
    once = []
    for name, call in (
        ("attention, 131072 tokens", lambda: attention(131_072)),
        ("GPT-2 small, a training step", gpt2),
    ):
        first, peak = timed_window(large, call)
        again, _ = timed_window(large, call)
        once.append((name, first, again, peak / (1 << 30)))
    print(tabulate(once, ("program", "first ms", "again ms", "peak GiB"), floatfmt=".1f"))


def compare(body: Body, backend: Simulated, rounds: int) -> tuple[float, float, float]:
    """Least times in ms: on fake tensors, with their tracker, simulated; all warm."""
    times: dict[str, list[float]] = {"bare": [], "tracked": [], "ours": []}
    for _ in range(rounds + 1):
        with FakeTensorMode():
            times["bare"].append(timed(body))
            with MemTracker():
                times["tracked"].append(timed(body))
        with backend.world():
            backend.forget()
            gauge = backend.gauge()
            gauge.start()
            times["ours"].append(timed(body))
            gauge.stop()
    bare, tracked, ours = (min(found[1:]) for found in times.values())
    return bare, tracked, ours


def timed(body: Body) -> float:
    """In ms."""
    started = time.perf_counter()
    body()
    return (time.perf_counter() - started) * 1e3


def timed_window(backend: Simulated, body: Body) -> tuple[float, int]:
    """A whole measurement in ms, garbage collection left out; and its peak in bytes."""
    backend.forget()
    measurement, _ = PrimedBackend(backend, 0).run(body)
    if measurement.unmeasured or measurement.peak_bytes is None:
        raise SystemExit(f"not measured: {measurement.unmeasured}")
    return measurement.duration_s * 1e3, measurement.peak_bytes


if __name__ == "__main__":
    main()

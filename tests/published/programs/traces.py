"""Snapshots of the allocator: the events and segments of a program, as short texts to compare.

``python tests/published/programs/traces.py FILE.pickle`` prints what a published snapshot has.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
import tempfile
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from language_model import AdamW, Model
from torch import Tensor, cuda

EVENTS = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free")


class Plain(pickle.Unpickler):
    """Reads plain values, which PyTorch's snapshots have; a class or function could run code."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"a snapshot names {module}.{name}")


def facts(path: Path) -> dict[str, int | str]:
    """Returns the numbers of a snapshot, and digests of its lists with their lengths.

    ``actions``: each event's action and size; ``blocks``: with the place of its address in the
    order of first use; ``segments``: their sizes, and their blocks with state.
    """
    with path.open("rb") as file:
        snapshot = Plain(file).load()
    trace = next((trace for trace in snapshot["device_traces"] if trace), [])
    events = [(e["action"], e["size"], e["addr"]) for e in trace if e["action"] in EVENTS]
    places: dict[int, int] = {}
    level = peak = 0
    for action, size, _ in events:
        if action == "alloc":
            level += size
            peak = max(peak, level)
        elif action == "free_completed":
            level -= size
    segments = snapshot["segments"]
    allocated = sum(segment["allocated_size"] for segment in segments)
    shapes = Counter(
        (s["total_size"], s["segment_type"], tuple((b["size"], b["state"]) for b in s["blocks"]))
        for s in segments
    )
    return {
        "reserved": sum(segment["total_size"] for segment in segments),
        "allocated": allocated,
        "requested": sum(segment["requested_size"] for segment in segments),
        "peak": allocated - level + peak,
        "actions": digest(len(events), [event[:2] for event in events]),
        "blocks": digest(
            len(events), [(*e[:2], places.setdefault(e[2], len(places))) for e in events]
        ),
        "segments": digest(len(segments), sorted(shapes.items())),
    }


def digest(count: int, value: Any) -> str:
    return f"{count} {hashlib.sha256(repr(value).encode()).hexdigest()[:12]}"


def recorded_from_here() -> None:
    """Records events, without the stacks, which would take minutes to name."""
    cuda.memory._record_memory_history(max_entries=1_000_000, context=None)


def dumped() -> dict[str, int | str]:
    """Returns the facts of this process's snapshot, and stops recording."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.pickle"
        cuda.memory._dump_snapshot(str(path))
        found = facts(path)
    cuda.memory._record_memory_history(enabled=None)
    return found


def linear(grad: bool) -> dict[str, int | str]:
    """A linear layer of 10,000 by 50,000, three times, recorded from the start."""
    recorded_from_here()
    model = torch.nn.Linear(10_000, 50_000, device="cuda")
    with nullcontext() if grad else torch.no_grad():
        for _ in range(3):
            inputs = torch.randn(5_000, 10_000, device="cuda")
            outputs = model(inputs)
    found = dumped()
    del inputs, outputs
    return found


def tokens(batch: int, context: int) -> Tensor:
    return torch.randint(0, 10000, (batch, context), device="cuda")


def autocast(precision: str) -> Any:
    """Returns autocast to bfloat16, or nothing."""
    return torch.autocast("cuda", dtype=torch.bfloat16) if precision == "bf16" else nullcontext()


def forward_with_graph(
    size: str, context: int, precision: str, batch: int, recorded: int
) -> dict[str, int | str]:
    """Forward passes with a graph that is dropped; the optimizer has no state yet."""
    model = Model(size, context, 2025).to("cuda")
    inputs, targets = tokens(batch, context), tokens(batch, context)
    optimizer = AdamW(model.parameters())
    around = autocast(precision)

    def run() -> None:
        with around:
            output = model.forward(inputs)  # noqa: F841

    for _ in range(5):
        run()
    recorded_from_here()
    for _ in range(recorded):
        model.zero_grad()
        run()
    found = dumped()
    del targets, optimizer
    return found


def with_loss(
    size: str, context: int, precision: str, stage: str, batch: int, recorded: int
) -> dict[str, int | str]:
    """Forward passes and the loss, without a graph, or with one that the next pass replaces."""
    model = Model(size, context, 2025).to("cuda")
    if stage != "fw":
        optimizer = AdamW(model.parameters(), lr=1e-4)
    x = torch.zeros(batch, context, dtype=torch.int64).pin_memory().to("cuda", non_blocking=True)
    y = torch.zeros(batch, context, dtype=torch.int64).pin_memory().to("cuda", non_blocking=True)
    around = autocast(precision)
    for step in range(5 + recorded):
        if step == 5:
            cuda.empty_cache()
            recorded_from_here()
        with around:
            if stage == "fw":
                with torch.no_grad():
                    logits = model(x)
                    loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))
            else:
                model.zero_grad()
                logits = model(x)
                loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))
    found = dumped()
    if stage != "fw":
        del optimizer
    del loss
    return found


def step_of_2026(
    size: str, context: int, precision: str, stage: str, batch: int
) -> dict[str, int | str]:
    """A forward pass without a graph, or a whole step with PyTorch's AdamW; and its own peak."""
    model = Model(size, context, 2026).to("cuda")
    model.train()
    inputs, targets = tokens(batch, context), tokens(batch, context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad() if stage == "forward" else nullcontext(), autocast(precision):
            logits = model(inputs)
        if stage == "forward":
            return
        loss = F.cross_entropy(logits.float().reshape(-1, 10000), targets.reshape(-1))
        loss.backward()
        optimizer.step()

    for _ in range(5):
        step()
    recorded_from_here()  # the script of the commit drops gradients and cached blocks before it
    cuda.reset_peak_memory_stats()
    step()
    peak = cuda.max_memory_allocated()
    return {**dumped(), "reported": peak}


def forward_of_2026(
    size: str, context: int, precision: str, batch: int, graph: bool
) -> dict[str, int | str]:
    """A forward pass, whose output is dropped at once."""
    model = Model(size, context, 2026).to("cuda")
    inputs = torch.zeros(batch, context, dtype=torch.int64).to("cuda")

    def step() -> None:
        with nullcontext() if graph else torch.no_grad(), autocast(precision):
            _ = model.forward(inputs)

    for _ in range(5):
        step()
    recorded_from_here()
    step()
    return dumped()


if __name__ == "__main__":
    print(facts(Path(sys.argv[1])))

"""Training steps of the course's model of 3.4 B parameters, whose layers are computed again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from language_model import AdamW, Model
from torch import Tensor, cuda, nn
from torch.utils.checkpoint import checkpoint
from two_ranks import cross_entropy

Layers = Sequence[nn.Module]


def run(x: Tensor, layers: Layers) -> Tensor:
    for layer in layers:
        x = layer(x)
    return x


def halves(x: Tensor, layers: Layers) -> Tensor:
    """Runs each half of the layers in a checkpoint, and its halves in others."""
    if len(layers) == 1:
        found: Tensor = layers[0](x)
        return found
    middle = len(layers) // 2
    for part in (layers[:middle], layers[middle:]):
        x = checkpoint(lambda x, part=part: halves(x, part), x, use_reentrant=False)
    return x


def forward(model: Model, tokens: Tensor, group: int) -> Tensor:
    """Returns logits; each group of layers is a checkpoint, or each half of them if it is 0."""
    x = model.token_embeddings(tokens)
    layers = [*model.layers]
    if group:
        for start in range(0, len(layers), group):
            part = layers[start : start + group]
            x = checkpoint(lambda x, part=part: run(x, part), x, use_reentrant=False)
    else:
        x = halves(x, layers)
    x = model.ln_final(x)
    logits: Tensor = model.lm_head(x)
    return logits


def peak(optimizer: Any, step: Callable[[], None], *, emptied: bool) -> dict[str, int]:
    """Returns the peak of a step after another, the gradients dropped between them."""
    step()
    optimizer.zero_grad(set_to_none=True)
    if emptied:
        cuda.empty_cache()
    cuda.reset_peak_memory_stats()
    step()
    return {"peak": cuda.max_memory_allocated()}


def with_pytorch(group: int, context: int) -> dict[str, int]:
    """PyTorch's AdamW and loss."""
    model = Model("2.7B", context, 2026).to("cuda")
    inputs, targets = (torch.randint(0, 10000, (4, context), device="cuda") for _ in range(2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        logits = forward(model, inputs, group)
        loss = F.cross_entropy(logits.float().reshape(-1, 10000), targets.reshape(-1))
        loss.backward()
        optimizer.step()

    return peak(optimizer, step, emptied=False)


def with_the_course(group: int, context: int) -> dict[str, int]:
    """The course's AdamW and loss; the last logits stay alive."""
    tokens = torch.randint(0, 10000, (4, context + 1), device="cuda")
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    model = Model("2.7B", context, 2026).to("cuda")
    optimizer = AdamW(model.parameters())
    kept: list[Tensor] = []

    def step() -> None:
        optimizer.zero_grad()
        logits = forward(model, inputs, group)
        loss = cross_entropy(logits, targets)
        kept[:] = logits, loss
        loss.backward()
        optimizer.step()

    return peak(optimizer, step, emptied=True)


def with_sum(group: int, context: int) -> dict[str, int]:
    """PyTorch's AdamW; the loss is the sum of the logits."""
    model = Model("2.7B", context, 2026).to("cuda")
    inputs = torch.randint(0, 10000, (4, context), device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        y = forward(model, inputs, group)
        loss = y.sum()
        loss.backward()
        optimizer.step()

    for _ in range(2):
        step()
    cuda.reset_peak_memory_stats()
    step()
    return {"peak": cuda.max_memory_allocated()}

"""Ten programs for the default device, from a few operators to a training step of GPT-2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


def attention(length: int = 1024) -> None:
    """Standard attention, forward and backward."""
    q, k, v = (torch.empty(1, 8, length, 64, requires_grad=True) for _ in "qkv")
    weights = (q @ k.mT * 64**-0.5).softmax(-1)
    (weights @ v).sum().backward()


def long_attention() -> None:
    """Standard attention of 16 384 tokens: its weights take 8 GiB."""
    attention(16_384)


def layers() -> None:
    """A chain of small layers without gradients."""
    x, weight = torch.empty(64, 64), torch.empty(64, 64)
    with torch.no_grad():
        for _ in range(60):
            x = F.gelu(x @ weight) + x


def tiles(length: int = 2048, tile: int = 128) -> None:
    """Flash attention as a loop over 16 x 16 tiles, without gradients."""
    q, k, v = (torch.empty(1, 8, length, 64) for _ in "qkv")
    out = torch.empty_like(q)
    for i in range(0, length, tile):
        rows = q[:, :, i : i + tile] * 0.125
        top, sums = torch.full((1, 8, tile, 1), float("-inf")), torch.zeros_like(rows)
        total = torch.zeros_like(top)
        for j in range(0, length, tile):
            scores = rows @ k[:, :, j : j + tile].mT
            highest = torch.maximum(top, scores.amax(-1, keepdim=True))
            weights, old = torch.exp(scores - highest), torch.exp(top - highest)
            total = total * old + weights.sum(-1, keepdim=True)
            sums, top = sums * old + weights @ v[:, :, j : j + tile], highest
        out[:, :, i : i + tile] = sums / total


def encoder() -> None:
    """A training step of an encoder layer."""
    layer = nn.TransformerEncoderLayer(256, 4, batch_first=True)
    optimizer = torch.optim.AdamW(layer.parameters(), foreach=False)
    layer(torch.empty(4, 128, 256)).sum().backward()
    optimizer.step()


def multihead() -> None:
    """``nn.MultiheadAttention`` that returns its weights, forward and backward."""
    module = nn.MultiheadAttention(256, 4, batch_first=True)
    x = torch.empty(4, 512, 256)
    module(x, x, x, need_weights=True)[0].sum().backward()


def checkpointed() -> None:
    """Eight checkpointed layers, forward and backward."""
    blocks = [
        nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)) for _ in "12345678"
    ]
    x = torch.empty(2048, 512, requires_grad=True)
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=False)
    x.sum().backward()


def language_head() -> None:
    """The loss of 4096 tokens over a vocabulary of 32 000, forward and backward."""
    hidden, weight = torch.empty(4096, 1024, requires_grad=True), torch.empty(32_000, 1024)
    labels = torch.zeros(4096, dtype=torch.long)
    F.cross_entropy((hidden @ weight.T).float(), labels).backward()


def optimizer() -> None:
    """Three steps of AdamW over 48 matrices."""
    parameters = [torch.zeros(512, 512, requires_grad=True) for _ in range(48)]
    adam = torch.optim.AdamW(parameters, foreach=True)
    for _ in range(3):
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        adam.step()
        adam.zero_grad()


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
    """A training step of GPT-2 small: batch 8, 1024 tokens, AdamW."""
    model = Gpt2()
    adam = torch.optim.AdamW(model.parameters())
    ids = torch.zeros(8, 1024, dtype=torch.long)
    F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
    adam.step()


PROGRAMS: Final[dict[str, Callable[[], None]]] = {
    program.__name__: program
    for program in (
        *(attention, long_attention, layers, tiles, encoder),
        *(multihead, checkpointed, language_head, optimizer, gpt2),
    )
}

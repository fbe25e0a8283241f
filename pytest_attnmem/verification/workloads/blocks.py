"""Whole blocks of transformers, forward and backward."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from ..workload import Workload
from .inputs import bf16, fp16, fp32, made, tokens, train


class Block(nn.Module):
    """A block with norms before attention and before two layers, as in GPT-2."""

    def __init__(self, width: int, heads: int, dtype: torch.dtype = fp32) -> None:
        super().__init__()
        linear = partial(nn.Linear, device="cuda", dtype=dtype)
        norm = partial(nn.LayerNorm, device="cuda", dtype=dtype)
        self.heads = heads
        self.norms = nn.ModuleList([norm(width), norm(width)])
        self.qkv, self.out = linear(width, 3 * width), linear(width, width)
        self.wide, self.narrow = linear(width, 4 * width), linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns ``[B, N, width]`` from the same shape."""
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).unbind(2)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        mixed = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        out: torch.Tensor = x + self.narrow(F.gelu(self.wide(self.norms[1](x))))
        return out


def _block(dtype: torch.dtype) -> None:
    """Runs two blocks and backward."""
    blocks = nn.Sequential(Block(256, 4, dtype), Block(256, 4, dtype))
    train(blocks(made(3, 300, 256, dtype=dtype)))


def _autocast() -> None:
    """Runs a block in mixed precision and backward."""
    block, x = Block(256, 4), made(2, 400, 256)
    with torch.autocast("cuda", dtype=bf16):
        out = block(x)
    train(out)


def _gated() -> None:
    """Runs the feed-forward layers of Llama with RMSNorm and backward."""
    linear = partial(nn.Linear, bias=False, device="cuda", dtype=bf16)
    norm = nn.RMSNorm(320, device="cuda", dtype=bf16)
    gate, up, down = linear(320, 860), linear(320, 860), linear(860, 320)
    x = made(4, 333, 320, dtype=bf16)
    z = norm(x)
    train(x + down(F.silu(gate(z)) * up(z)))


def _encoder() -> None:
    """Runs a layer of ``nn.TransformerEncoder`` with dropout and backward."""
    layer = nn.TransformerEncoderLayer(192, 4, 512, batch_first=True, device="cuda")
    train(layer(made(4, 200, 192)))


def _rotary() -> None:
    """Runs rotary positions on queries and keys, and backward."""
    q, k = (made(2, 8, 500, 64, dtype=fp16) for _ in range(2))
    angles = torch.outer(torch.arange(500, device="cuda").float(), made(32, grad=False))
    cos, sin = (torch.cat((f, f), -1).to(fp16) for f in (angles.cos(), angles.sin()))
    turned = [x * cos + torch.cat((-x[..., 32:], x[..., :32]), -1) * sin for x in (q, k)]
    train(torch.cat(turned, 1))


def _language_head() -> None:
    """Runs an embedding, a tied head and the cross entropy of 5003 words, and backward."""
    table = nn.Embedding(5003, 192, device="cuda")
    ids = tokens(3, 300, 5003)
    logits = table(ids) @ table.weight.T
    F.cross_entropy(logits.flatten(0, 1).float(), ids.flatten()).backward()


def _decoding() -> None:
    """Runs four steps of decoding, whose cache of keys and values grows by one row each."""
    with torch.inference_mode():
        keys, values = (made(4, 8, 300, 64, dtype=fp16, grad=False) for _ in range(2))
        for _ in range(4):
            q, k, v = (made(4, 8, 1, 64, dtype=fp16, grad=False) for _ in range(3))
            keys, values = torch.cat((keys, k), 2), torch.cat((values, v), 2)
            F.scaled_dot_product_attention(q, keys, values)


BLOCKS = (
    Workload("block/gpt-fp32", partial(_block, fp32)),
    Workload("block/gpt-bf16", partial(_block, bf16)),
    Workload("block/autocast-bf16", _autocast),
    Workload("block/gated-bf16", _gated),
    Workload("block/encoder-layer", _encoder),
    Workload("block/rotary-fp16", _rotary),
    Workload("block/language-head", _language_head),
    Workload("block/decoding-fp16", _decoding),
)

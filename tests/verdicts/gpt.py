"""A plain GPT, as a module of a suite; environment variables bring its regressions in."""

GPT = """
import math
import os

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

def regressed(name):
    return os.environ.get("REGRESSED") == name

class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)

    def forward(self, x):
        B, N, width = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        masked = torch.ones(N, N, dtype=torch.bool, device=x.device).triu(1)
        if regressed("mask"):
            masked = masked.expand(scores.shape).clone()
        scores = scores.masked_fill(masked, float("-inf"))
        if regressed("upcast"):
            scores = scores.double()
        weights = scores.softmax(-1).to(v.dtype)
        return self.projection((weights @ v).transpose(1, 2).reshape(B, N, width))

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.before = nn.LayerNorm(width)
        self.attention = Attention(width, heads)

    def forward(self, x):
        return x + self.attention(self.before(x))

class GPT(nn.Module):
    def __init__(self, layers=2, width=32, heads=4, words=64, checkpointed=False):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, words, bias=False)
        self.checkpointed = checkpointed and not regressed("checkpoint")

    def forward(self, ids):
        x = self.words(ids)
        self.hidden = []
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
            if regressed("hidden"):
                self.hidden.append(x * 2)
        return self.head(x)

class Cache:
    def __init__(self, B, H, length, d):
        self.keys = torch.empty(B, H, 0, d)

    def append(self, keys):
        self.keys = torch.cat([self.keys, keys], 2)
        return self.keys.clone() if regressed("cache") else self.keys
"""

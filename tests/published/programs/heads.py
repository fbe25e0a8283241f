"""The course's attention layer of 2025, with one head and a table for 32,768 positions."""

from __future__ import annotations

import gc

import torch
from language_model import Attention, Rotary
from torch import cuda


def levels(d: int, n: int) -> dict[str, int]:
    """What is allocated and reserved after forward passes, and after backward passes of one."""
    layer = Attention(d, 1, Rotary(32768, d, 2025)).to("cuda")
    x = torch.randn(8, n, d).to("cuda")
    for _ in range(7):
        output = layer(x)
    found = {"forward": cuda.memory_allocated(), "forward_reserved": cuda.memory_reserved()}
    loss = output.sum()
    for _ in range(7):
        layer.zero_grad()
        loss.backward(retain_graph=True)
    found |= {"backward": cuda.memory_allocated(), "backward_reserved": cuda.memory_reserved()}
    del layer, x, output, loss
    gc.collect()
    cuda.empty_cache()
    return found

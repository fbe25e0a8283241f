"""Layers that keep nothing: two activations, 8*N*64 bytes, however many layers."""

import torch

SIZES = {"layers": 6, "N": 64}
HOLDS = ("O(N)",)
BREAKS = ("O(layers)", "O(1)")


@torch.no_grad()
def body(device, layers, N):
    x = torch.zeros(N, 64, device=device)
    for _ in range(layers):
        x = x.sin()

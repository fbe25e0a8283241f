"""Layers that write into one activation: 256*N bytes."""

import torch

SIZES = {"layers": 6, "N": 64}
HOLDS = ("O(N)",)
BREAKS = ("O(1)",)


@torch.no_grad()
def body(device, layers, N):
    x = torch.zeros(N, 64, device=device)
    for _ in range(layers):
        x.sin_()

"""An all-gather keeps the part of each rank: 4*n*ranks bytes."""

import torch

SIZES = {"n": 256, "ranks": 8}
HOLDS = ("O(n*ranks)",)
BREAKS = ("O(n)", "O(n + ranks)")


def body(device, n, ranks):
    return [torch.empty(n, device=device) for _ in range(ranks)]

"""Tiles of 128 where 128 divides N, all N^2 scores elsewhere: no line bounds it."""

import torch

SIZES = {"N": 512}
HOLDS = ("O(N^2)",)
BREAKS = ("O(N)",)


def body(device, N):
    return torch.empty(N if N % 128 else 128, N, device=device)

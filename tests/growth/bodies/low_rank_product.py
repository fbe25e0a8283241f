"""A low-rank update by two thin products: 8*n*rank + 8*n bytes."""

import torch

SIZES = {"n": 128, "rank": 8}
HOLDS = ("O(n*rank)",)
BREAKS = ("O(n)", "O(rank)")


def body(device, n, rank):
    a, b = torch.empty(rank, n, device=device), torch.empty(n, rank, device=device)
    x = torch.zeros(n, device=device)
    return b @ (a @ x)

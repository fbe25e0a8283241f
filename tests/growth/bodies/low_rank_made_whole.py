"""A low-rank update that is made whole, beside an n by n weight: 8*n^2 + 8*n*rank bytes."""

import torch

SIZES = {"n": 128, "rank": 8}
HOLDS = ("O(n^2 + n*rank)", "8*n*n + O(n*rank)")
BREAKS = ("O(n*rank)", "4*n*n + O(n*rank)")


def body(device, n, rank):
    w = torch.empty(n, n, device=device)
    a, b = torch.empty(rank, n, device=device), torch.empty(n, rank, device=device)
    return w.add_(b @ a)

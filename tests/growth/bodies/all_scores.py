"""Scores of every key for every query: 4*N^2 + 8*N*d bytes."""

import torch

SIZES = {"N": 128, "d": 16}
HOLDS = ("O(N^2 + N*d)",)
BREAKS = ("O(N*d)",)


def body(device, N, d):
    q, k = torch.empty(N, d, device=device), torch.empty(N, d, device=device)
    return q @ k.T

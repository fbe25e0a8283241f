"""A packed triangle of a symmetric matrix: 2*N*(N + 1) bytes."""

import torch

SIZES = {"N": 128}
HOLDS = ("O(N^2)",)
BREAKS = ("O(N)",)


def body(device, N):
    return torch.empty(N * (N + 1) // 2, device=device)

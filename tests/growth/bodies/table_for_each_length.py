"""A table is kept for each length that came up: 4*(1 + 2 + ... + N) = 2*N^2 + 2*N bytes."""

import torch

SIZES = {"N": 48}
HOLDS = ("O(N^2)",)
BREAKS = ("O(N)",)


def body(device, N):
    tables = {}
    for n in range(1, N + 1):
        tables[n] = torch.empty(n, device=device)

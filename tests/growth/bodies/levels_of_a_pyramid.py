"""Each level has half of the rows of the one before: 4*(N + N/2 + N/4 + ...) < 8*N bytes."""

import torch

SIZES = {"N": 512}
HOLDS = ("O(N)",)
BREAKS = ("O(1)",)


def body(device, N):
    levels = []
    while N:
        levels.append(torch.empty(N, device=device))
        N //= 2
    return levels

"""Ring attention: a rank's block and the one that it receives, 8*64*N/ranks bytes."""

import torch

SIZES = {"N": 512, "ranks": 4}
HOLDS = ("O(N)",)
BREAKS = ("O(1)",)


def body(device, N, ranks):
    mine = torch.empty(N // ranks, 64, device=device)
    for _ in range(ranks - 1):
        mine = torch.empty_like(mine)

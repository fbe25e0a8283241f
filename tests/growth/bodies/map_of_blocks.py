"""A map of pairs of blocks: 4*(N/block)^2 bytes, quadratic in N though divided by 64."""

import torch

SIZES = {"N": 512, "block": 8}
HOLDS = ("O(N^2)",)
BREAKS = ("O(N)",)


def body(device, N, block):
    return torch.empty(N // block, N // block, device=device)

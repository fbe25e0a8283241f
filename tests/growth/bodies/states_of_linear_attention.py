"""A state of d by d for each position: 4*N*d^2 bytes."""

import torch

SIZES = {"N": 32, "d": 16}
HOLDS = ("O(N*d^2)",)
BREAKS = ("O(N*d + d^2)", "O(N*d)")


def body(device, N, d):
    return torch.empty(N, d, d, device=device)

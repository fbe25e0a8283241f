"""A state of d by d, and the rows: 4*d^2 + 12*N*d bytes."""

import torch

SIZES = {"N": 64, "d": 32}
HOLDS = ("O(N*d + d^2)",)
BREAKS = ("O(N*d)", "O(d^2)")


def body(device, N, d):
    q, k = torch.empty(N, d, device=device), torch.empty(N, d, device=device)
    return q @ (k.T @ q)

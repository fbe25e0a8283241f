"""A phase of d^2 weights, then one of N*d activations: the larger of 4*d^2 and 8*N*d bytes."""

import torch

SIZES = {"N": 64, "d": 64}
HOLDS = ("O(N*d + d^2)",)
BREAKS = ("O(N*d)", "O(N + d^2)")


def body(device, N, d):
    torch.empty(d, d, device=device)
    x = torch.empty(N, d, device=device)
    return x + 1

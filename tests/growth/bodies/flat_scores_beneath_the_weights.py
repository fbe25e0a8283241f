"""N^2 scores in a flat tensor beneath the peak of weights that are freed before."""

import torch

SIZES = {"N": 256}
HOLDS = ("O(N^2)",)
BREAKS = ("O(N)",)


def body(device, N):
    weights = torch.empty(40_000, device=device)
    del weights
    return torch.empty(N * N, device=device)

"""A fused kernel up to 255 rows, all N^2 scores from 256 on."""

import torch

SIZES = {"N": 256}
HOLDS = ("O(N^2)",)
BREAKS = ("O(N)",)


def body(device, N):
    out = torch.empty(N, 16, device=device)
    if N >= 256:
        torch.empty(N, N, device=device)
    return out

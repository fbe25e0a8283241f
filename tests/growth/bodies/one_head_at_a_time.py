"""The scores of one head at a time, summed: 8*N^2 bytes for any number of heads."""

import torch

SIZES = {"N": 64, "heads": 8}
HOLDS = ("O(N^2)",)
BREAKS = ("O(N)", "O(N*heads)")


def body(device, N, heads):
    total = torch.zeros(N, N, device=device)
    for _ in range(heads):
        total += torch.empty(N, N, device=device)

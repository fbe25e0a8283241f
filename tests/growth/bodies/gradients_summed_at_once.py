"""Each gradient is added to the sum and freed: 8*n bytes."""

import torch

SIZES = {"steps": 6, "n": 128}
HOLDS = ("O(n)",)
BREAKS = ("O(steps)", "O(1)")


def body(device, steps, n):
    total = torch.zeros(n, device=device)
    for _ in range(steps):
        total += torch.ones(n, device=device)
    return total

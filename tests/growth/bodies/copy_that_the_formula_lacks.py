"""Vectors of all layers and their stack: 8*layers*n bytes."""

import torch

SIZES = {"layers": 8, "n": 256}
HOLDS = ("8*layers*n + O(n)", "O(layers*n)")
BREAKS = ("4*layers*n + O(n)", "O(n)")


def body(device, layers, n):
    return torch.stack([torch.zeros(n, device=device) for _ in range(layers)])

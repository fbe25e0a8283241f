"""Heads divide a width of 64: 4*N*64 bytes for each number of heads that does; others raise."""

import torch

SIZES = {"N": 128, "heads": 8}
HOLDS = ("O(N)",)
BREAKS = ("O(1)",)


def body(device, N, heads, width=64):
    if width % heads:
        raise ValueError(f"{heads} heads do not divide {width}")
    return torch.empty(N, width, device=device).view(N, heads, width // heads)

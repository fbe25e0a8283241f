"""Sequences of 1 to longest tokens, each padded to the longest: 4*batch*longest bytes."""

import torch

SIZES = {"batch": 8, "longest": 64}
HOLDS = ("O(batch*longest)",)
BREAKS = ("O(batch + longest)", "O(longest)")


def body(device, batch, longest):
    return torch.zeros(batch, longest, device=device)

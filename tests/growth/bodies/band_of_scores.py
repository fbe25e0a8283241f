"""Scores of a window of keys for each query: 4*N*window + 8*N*d bytes."""

import torch

SIZES = {"N": 256, "window": 32, "d": 16}
HOLDS = ("O(N*window + N*d)",)
BREAKS = ("O(N*d)", "O(window*d)")


def body(device, N, window, d):
    x = torch.empty(N, d, device=device)
    band = torch.empty(N, window, device=device)
    return x + band.sum()

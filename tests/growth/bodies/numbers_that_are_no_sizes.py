"""A seed and an index of layers change nothing: 256*N bytes; an index of 4 or more raises."""

import torch

SIZES = {"N": 64, "seed": 7, "index": 3}
HOLDS = ("O(N)",)
BREAKS = ("O(1)", "O(seed)")


def body(device, N, seed, index):
    torch.manual_seed(seed)
    width = (64, 64, 64, 64)[index]
    return torch.empty(N, width, device=device)

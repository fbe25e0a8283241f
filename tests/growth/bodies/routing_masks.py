"""A mask of experts for each token and choice, of 8 bytes: 64*layers*tokens*experts bytes."""

import torch

SIZES = {"layers": 4, "tokens": 64, "experts": 16}
HOLDS = ("O(layers*tokens*experts)",)
BREAKS = ("O(tokens*experts + layers)",)


def body(device, layers, tokens, experts):
    return torch.zeros(layers * tokens, 8, experts, dtype=torch.long, device=device)

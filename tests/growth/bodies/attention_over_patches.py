"""Scores of all pairs of patches of an image: (side/8)^4 numbers, the fourth power of the side."""

import torch

SIZES = {"side": 128}
HOLDS = ("O(side^4)",)
BREAKS = ("O(side^2)", "O(side^3)")


def body(device, side):
    tokens = (side // 8) ** 2
    return torch.empty(tokens, tokens, device=device)

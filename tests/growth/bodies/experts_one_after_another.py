"""The tokens of one expert at a time: 8*tokens*width bytes at most, for any number of experts."""

import torch

SIZES = {"tokens": 64, "experts": 8, "width": 16}
HOLDS = ("O(tokens*width)",)
BREAKS = ("O(tokens + width)",)


def body(device, tokens, experts, width):
    out = torch.zeros(tokens, width, device=device)
    for _ in range(experts):
        out += torch.empty(tokens, width, device=device)

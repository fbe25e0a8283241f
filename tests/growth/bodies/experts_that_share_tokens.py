"""Each expert has its share of the tokens: 4*tokens*width bytes, where experts divide tokens."""

import torch

SIZES = {"tokens": 64, "experts": 4, "width": 16}
HOLDS = ("O(tokens*width)",)
BREAKS = ("O(width)",)


def body(device, tokens, experts, width):
    return [torch.empty(tokens // experts, width, device=device) for _ in range(experts)]

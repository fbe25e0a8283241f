"""Every expert computes every token: 4*tokens*experts*width bytes of outputs."""

import torch

SIZES = {"tokens": 64, "experts": 8, "width": 16}
HOLDS = ("O(tokens*experts*width)",)
BREAKS = ("O(tokens*width)", "O(tokens*width + experts)")


def body(device, tokens, experts, width):
    x = torch.empty(tokens, width, device=device)
    return torch.stack([x for _ in range(experts)])

"""A contrastive loss compares each pair of a batch: 4*batch^2 bytes."""

import torch

SIZES = {"batch": 64, "width": 16}
HOLDS = ("O(batch^2 + batch*width)",)
BREAKS = ("O(batch*width)",)


def body(device, batch, width):
    x = torch.empty(batch, width, device=device)
    return x @ x.T

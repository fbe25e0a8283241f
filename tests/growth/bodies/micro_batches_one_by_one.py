"""Micro-batches of batch/micro rows, each backward by itself: the more of them, the less memory."""

import torch

SIZES = {"batch": 64, "micro": 4}
HOLDS = ("O(batch)",)
BREAKS = ("O(1)", "O(micro)")


def body(device, batch, micro):
    w = torch.ones(32, device=device, requires_grad=True)
    for _ in range(micro):
        x = torch.zeros(batch // micro, 32, device=device)
        (x * w).sin().sum().backward()

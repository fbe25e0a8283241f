"""The columns of a convolution: 4*batch*side^2*kernel^2 bytes."""

import torch

SIZES = {"batch": 2, "side": 16, "kernel": 3}
HOLDS = ("O(batch*side^2*kernel^2)",)
BREAKS = ("O(batch*side^2)", "O(batch*side^2*kernel)")


def body(device, batch, side, kernel):
    return torch.empty(batch, kernel * kernel, side * side, device=device)

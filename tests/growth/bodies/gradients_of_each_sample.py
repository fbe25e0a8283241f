"""A gradient of the weight for each sample: 4*batch*width^2 bytes."""

import torch

SIZES = {"batch": 16, "width": 16}
HOLDS = ("O(batch*width^2)",)
BREAKS = ("O(batch*width + width^2)",)


def body(device, batch, width):
    return torch.empty(batch, width, width, device=device)

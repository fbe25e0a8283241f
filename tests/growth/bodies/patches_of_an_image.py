"""Tokens of an image, (side/patch)^2 of 64 numbers: the larger a patch, the fewer."""

import torch

SIZES = {"side": 64, "patch": 4}
HOLDS = ("O(side^2)",)
BREAKS = ("O(side)", "O(side*patch)")


def body(device, side, patch):
    return torch.empty((side // patch) ** 2, 64, device=device)

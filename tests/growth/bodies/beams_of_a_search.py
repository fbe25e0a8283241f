"""Each beam keeps all its steps: 64*beams*steps bytes."""

import torch

SIZES = {"beams": 4, "steps": 16}
HOLDS = ("O(beams*steps)",)
BREAKS = ("O(steps)", "O(beams + steps)")


def body(device, beams, steps):
    return [torch.empty(beams, 16, device=device) for _ in range(steps)]

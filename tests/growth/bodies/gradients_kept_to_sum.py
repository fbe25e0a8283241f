"""The gradients of all steps are kept and summed at the end: 4*steps*n bytes, and the stack."""

import torch

SIZES = {"steps": 6, "n": 128}
HOLDS = ("O(steps*n)",)
BREAKS = ("O(n)",)


def body(device, steps, n):
    kept = [torch.ones(n, device=device) for _ in range(steps)]
    return torch.stack(kept).sum(0)

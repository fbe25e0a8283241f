"""A buffer that never drops a state: 4*width*steps bytes, though it takes a window."""

import torch

SIZES = {"steps": 64, "window": 16, "width": 32}
HOLDS = ("O(steps*width)",)
BREAKS = ("O(window*width)",)


def body(device, steps, window, width):
    kept = [torch.empty(width, device=device) for _ in range(steps)]
    return kept[-window:]

"""Pages of 16 rows: 4*16*width*ceil(steps/16) bytes."""

import torch

SIZES = {"steps": 128, "width": 8}
HOLDS = ("O(steps*width)",)
BREAKS = ("O(width)",)


def body(device, steps, width):
    pages = []
    for at in range(steps):
        if at % 16 == 0:
            pages.append(torch.empty(16, width, device=device))

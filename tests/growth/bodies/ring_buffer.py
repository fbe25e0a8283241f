"""A ring buffer that is full: 4*width*(window + 1) bytes, however many steps."""

from collections import deque

import torch

SIZES = {"steps": 64, "window": 16, "width": 32}
HOLDS = ("O(window*width)",)
BREAKS = ("O(width)", "O(window)", "O(steps + width)")


def body(device, steps, window, width):
    last = deque(maxlen=window)
    for _ in range(steps):
        last.append(torch.empty(width, device=device))

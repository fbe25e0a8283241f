"""A cache made for the longest sequence: 4*longest*d bytes; more steps than that raise."""

import torch

SIZES = {"steps": 32, "longest": 64, "d": 16}
HOLDS = ("O(longest*d)",)
BREAKS = ("O(d)", "O(steps*d)")


def body(device, steps, longest, d):
    cache = torch.zeros(longest, d, device=device)
    for at in range(steps):
        cache[at].fill_(1)

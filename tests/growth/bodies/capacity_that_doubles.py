"""A buffer whose capacity doubles: less than 8*N bytes, and half of it while it is copied."""

import torch

SIZES = {"N": 200}
HOLDS = ("O(N)",)
BREAKS = ("O(1)",)


def body(device, N):
    buffer = torch.empty(1, device=device)
    for n in range(1, N + 1):
        if n > len(buffer):
            buffer = torch.cat([buffer, torch.empty_like(buffer)])
    return buffer

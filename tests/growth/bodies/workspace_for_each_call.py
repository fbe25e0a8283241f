"""Each call makes a workspace of its own and keeps it: 1024*calls bytes."""

import torch

SIZES = {"calls": 8, "N": 64}
HOLDS = ("O(N + calls)",)
BREAKS = ("O(N)",)


def body(device, calls, N):
    x = torch.empty(N, device=device)
    return x, [torch.empty(256, device=device) for _ in range(calls)]

"""One table, replaced by a longer one: 4*N + 4*(N - 1) bytes."""

import torch

SIZES = {"N": 48}
HOLDS = ("O(N)",)
BREAKS = ("O(1)",)


def body(device, N):
    table = None
    for n in range(1, N + 1):
        table = torch.empty(n, device=device)
    return table

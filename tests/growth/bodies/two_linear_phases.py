"""Two phases, 4*(N + 3000) and 4*16*N bytes: the second overtakes the first at N = 200."""

import torch

SIZES = {"N": 256}
HOLDS = ("O(N)",)
BREAKS = ("O(1)",)


def body(device, N):
    torch.empty(N + 3000, device=device)
    torch.empty(16, N, device=device)

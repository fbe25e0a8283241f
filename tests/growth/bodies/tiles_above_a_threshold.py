"""Dense up to 128 rows, in tiles of 128 beyond: 4*128*N bytes, linear at every larger size."""

import torch

SIZES = {"N": 512}
HOLDS = ("O(N)", "O(N^2)")
BREAKS = ("O(1)",)


def body(device, N):
    for _ in range(0, N, 128):
        torch.empty(min(N, 128), N, device=device)

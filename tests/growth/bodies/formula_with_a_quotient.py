"""One number for each block of keys and query: 4*N*N/block + 4*N bytes."""

import torch

SIZES = {"N": 128, "block": 16}
HOLDS = ("4*N*N/block + O(N)",)
BREAKS = ("4*N*N/64 + O(N)",)


def body(device, N, block):
    out = torch.empty(N, device=device)
    torch.empty(N, N // block, device=device)
    return out

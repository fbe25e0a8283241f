"""Chunks of queries whose size the test fixes: 4*chunk*N + 4*N*d bytes, linear in N."""

import torch

SIZES = {"N": 256, "chunk": 32, "d": 16}
FIXED = "chunk"
HOLDS = ("O(N*d)",)
BREAKS = ("O(d)",)


def body(device, N, chunk, d):
    out = torch.zeros(N, d, device=device)
    for _ in range(0, N, chunk):
        torch.empty(chunk, N, device=device)
    return out

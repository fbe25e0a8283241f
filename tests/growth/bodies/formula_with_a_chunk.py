"""A chunk of scores and the outputs: 4*chunk*N + 64*N bytes."""

import torch

SIZES = {"N": 128, "chunk": 16}
HOLDS = ("4*chunk*N + O(N)",)
BREAKS = ("2*chunk*N + O(N)",)


def body(device, N, chunk):
    out = torch.empty(N, 16, device=device)
    torch.empty(chunk, N, device=device)
    return out

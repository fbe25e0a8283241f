"""Each layer saves its input for backward: 256*N*(layers + 3) bytes or so."""

import torch

SIZES = {"layers": 6, "N": 64}
HOLDS = ("O(layers*N)",)
BREAKS = ("O(N)",)


def body(device, layers, N):
    x = torch.zeros(N, 64, device=device, requires_grad=True)
    y = x
    for _ in range(layers):
        y = y.sin()
    y.sum().backward()

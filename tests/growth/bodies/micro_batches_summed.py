"""The losses of all micro-batches are summed before backward: 4*128*micro*rows bytes or so."""

import torch

SIZES = {"micro": 4, "rows": 32}
HOLDS = ("O(micro*rows)",)
BREAKS = ("O(rows)",)


def body(device, micro, rows):
    w = torch.ones(32, device=device, requires_grad=True)
    total = 0
    for _ in range(micro):
        x = torch.zeros(rows, 32, device=device)
        total = total + (x * w).sin().sum()
    total.backward()

"""Weights, gradients and momenta of all layers, and a temporary: 12*layers*n^2 + 8*n^2 bytes."""

import torch

SIZES = {"layers": 6, "n": 32}
HOLDS = ("12*layers*n*n + O(n^2)",)
BREAKS = ("8*layers*n*n + O(n^2)", "O(n^2)")


def body(device, layers, n):
    state = [torch.empty(n, n, device=device) for _ in range(3 * layers)]
    for one in state[:layers]:
        one.add_(one * 2)

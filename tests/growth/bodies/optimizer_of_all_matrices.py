"""The same, with temporaries of all layers at once: 16*layers*n^2 bytes."""

import torch

SIZES = {"layers": 6, "n": 32}
HOLDS = ("16*layers*n*n + O(n^2)",)
BREAKS = ("12*layers*n*n + O(n^2)",)


def body(device, layers, n):
    state = [torch.empty(n, n, device=device) for _ in range(3 * layers)]
    return torch.stack(state[:layers])

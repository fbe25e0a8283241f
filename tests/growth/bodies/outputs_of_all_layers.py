"""A loop that returns every layer's output, as output_hidden_states does: 256*N*layers bytes."""

import torch

SIZES = {"layers": 6, "N": 64}
HOLDS = ("O(N*layers)",)
BREAKS = ("O(N)", "O(N + layers)")


@torch.no_grad()
def body(device, layers, N):
    x = torch.zeros(N, 64, device=device)
    states = []
    for _ in range(layers):
        x = x.sin()
        states.append(x)
    return states

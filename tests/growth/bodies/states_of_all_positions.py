"""A scan that keeps the state of each position: 4*N*state bytes."""

import torch

SIZES = {"N": 32, "state": 16}
HOLDS = ("O(N*state)",)
BREAKS = ("O(N + state)", "O(state)")


def body(device, N, state):
    x = torch.zeros(state, device=device)
    states = []
    for _ in range(N):
        x = x * 2
        states.append(x)
    return states

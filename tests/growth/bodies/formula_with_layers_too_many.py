"""Two matrices of N^2 for any number of layers: a formula of 4*layers*N^2 is less for one layer."""

import torch

SIZES = {"layers": 2, "N": 64}
HOLDS = ("8*N*N + O(N)", "8*layers*N*N + O(N)")
BREAKS = ("4*layers*N*N + O(N)",)


def body(device, layers, N):
    return torch.empty(2, N, N, device=device)

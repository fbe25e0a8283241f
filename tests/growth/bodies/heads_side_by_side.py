"""The outputs of all heads in one tensor: 4*N*heads*d bytes."""

import torch

SIZES = {"N": 64, "heads": 8, "d": 16}
HOLDS = ("O(N*heads*d)",)
BREAKS = ("O(N*d)", "O(N*heads + N*d)")


def body(device, N, heads, d):
    return torch.empty(N, heads * d, device=device)

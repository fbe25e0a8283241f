"""The patches of all images as one sequence, with a mask of pairs: 4*(images*N)^2 bytes."""

import torch

SIZES = {"images": 4, "N": 32}
HOLDS = ("O(images^2*N^2)",)
BREAKS = ("O(images*N)", "O(images*N^2)")


def body(device, images, N):
    return torch.empty(images * N, images * N, device=device)

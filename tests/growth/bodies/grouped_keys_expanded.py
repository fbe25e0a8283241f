"""Keys of a few groups, seen as those of each head by a view: 64*N*groups bytes."""

import torch

SIZES = {"N": 64, "heads": 16, "groups": 2}
HOLDS = ("O(N*groups)",)
BREAKS = ("O(N)",)


def body(device, N, heads, groups, d=16):
    if heads % groups:
        raise ValueError("groups do not divide heads")
    k = torch.empty(groups, 1, N, d, device=device)
    return k.expand(groups, heads // groups, N, d)

"""Keys of a few groups, repeated for each head: 64*N*groups + 64*N*heads bytes."""

import torch

SIZES = {"N": 64, "heads": 16, "groups": 2}
HOLDS = ("O(N*heads + N*groups)",)
BREAKS = ("O(N*groups)",)


def body(device, N, heads, groups, d=16):
    if heads % groups:
        raise ValueError("groups do not divide heads")
    k = torch.empty(groups, N, d, device=device)
    return k.repeat_interleave(heads // groups, dim=0, output_size=heads)

"""All stages of a butterfly are kept: 4*N*log2(N) bytes, more than any line."""

import torch

SIZES = {"N": 256}
HOLDS = ("O(N^2)",)
BREAKS = ("O(N)",)


def body(device, N):
    return [torch.empty(N, device=device) for _ in range(N.bit_length() - 1)]

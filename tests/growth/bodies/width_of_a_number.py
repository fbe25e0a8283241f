"""Numbers of 16 or 32 bits: N*bits/8 bytes; other widths raise, and the test fixes the width."""

import torch

SIZES = {"N": 64, "bits": 32}
FIXED = ("bits",)
HOLDS = ("O(N)",)
BREAKS = ("O(1)",)


def body(device, N, bits):
    return torch.empty(N, dtype={16: torch.float16, 32: torch.float32}[bits], device=device)

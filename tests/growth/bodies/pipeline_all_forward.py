"""All micro-batches forward, then all backward: 1024*micro bytes."""

import torch

SIZES = {"micro": 16, "stages": 4}
HOLDS = ("O(micro)",)
BREAKS = ("O(stages)",)


def body(device, micro, stages):
    return [torch.empty(256, device=device) for _ in range(micro)][:stages]

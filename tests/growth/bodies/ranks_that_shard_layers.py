"""A rank's share of each layer: 4*4096*layers/W bytes."""

import torch
import torch.distributed as dist

SIZES = {"layers": 8}
RANKS = 4
HOLDS = ("O(layers/W)", "O(layers/W + 1)")
BREAKS = ("O(1/W)",)


def body(device, layers):
    dist.init_process_group("nccl")
    return [torch.empty(4096 // dist.get_world_size(), device=device) for _ in range(layers)]

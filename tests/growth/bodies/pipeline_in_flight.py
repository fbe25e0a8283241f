"""One forward, one backward: activations of as many micro-batches as stages, 1024*stages bytes."""

import torch

SIZES = {"micro": 16, "stages": 4}
HOLDS = ("O(stages)",)
BREAKS = ("O(1)",)


def body(device, micro, stages):
    flight = []
    for _ in range(micro):
        flight.append(torch.empty(256, device=device))
        if len(flight) == stages:
            flight.pop(0)

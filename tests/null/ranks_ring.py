"""Holds one rank of ring attention to its model: exact, forward and with its gradients."""

import itertools
import os

import torch
import torch.distributed as dist

import pytest_attnmem
from pytest_attnmem.kernels import ring

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":0:0"  # the model is without cuBLAS' workspaces
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
WORLD = dist.get_world_size()
for dtype, causal, trains in itertools.product(
    (torch.float32, torch.bfloat16), (False, True), (False, True)
):
    q, k, v = (
        torch.ones(1, 2, 512 // WORLD, 64, device="cuda", dtype=dtype, requires_grad=trains)
        for _ in range(3)
    )

    def step(q=q, k=k, v=v, causal=causal, trains=trains):
        out = ring.attention(q, k, v, causal=causal)
        if trains:
            out.sum().backward()

    sizes = {"B": 1, "H": 2, "N": 512, "M": 512, "d": 64, "dv": 64, "R": WORLD}
    shape = pytest_attnmem.AttentionShape(
        {**sizes, "itemsize": dtype.itemsize, "causal": int(causal)}
    )
    model = ring.MODEL.training if trains else ring.MODEL.forward
    found = pytest_attnmem.measure(step).peak_bytes
    assert found == model.peak(shape), (dtype, causal, trains, found, model.live(shape))
dist.destroy_process_group()

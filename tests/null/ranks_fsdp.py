"""A training step under FSDP2, as torchrun would start it; the ranks' tests run it."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
mesh = init_device_mesh("cuda", (dist.get_world_size(),))
model = nn.Sequential(
    *(
        nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0, device="cuda")
        for _ in range(2)
    )
)
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(4, 512, 1024, device="cuda")
for _ in range(2):
    y = model(x)
    y.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    del y
dist.destroy_process_group()

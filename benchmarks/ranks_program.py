"""Two training steps of two encoder layers, sharded in the way that the first argument names.

With a second argument, ``estimate``, PyTorch's FSDPMemTracker follows the steps, and the program
prints the peak that it estimates, in bytes.
"""

import os
import sys
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.optim import ZeroRedundancyOptimizer

way = sys.argv[1]
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
world = dist.get_world_size()
model: nn.Module = nn.Sequential(
    *(
        nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0, device="cuda")
        for _ in range(2)
    )
)
if way in ("FSDP2", "HSDP"):
    shape, names = ((2, world // 2), ("copies", "shards")) if way == "HSDP" else ((world,), None)
    mesh = init_device_mesh("cuda", shape, mesh_dim_names=names)
    for layer in (*model.children(), model):
        fully_shard(layer, mesh=mesh)
elif way == "FSDP1":
    policy = ModuleWrapPolicy({nn.TransformerEncoderLayer})
    model = FullyShardedDataParallel(model, auto_wrap_policy=policy, use_orig_params=True)
elif way in ("DDP", "ZeRO-1"):
    model = nn.parallel.DistributedDataParallel(model)
optimizer = (
    ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW)
    if way == "ZeRO-1"
    else torch.optim.AdamW(model.parameters())
)
x = torch.randn(4, 512, 1024, device="cuda")
tracker = FSDPMemTracker(model, optimizer) if sys.argv[2:] == ["estimate"] else None
if tracker is not None:
    tracker.track_inputs((x,))
with tracker or nullcontext():
    for _ in range(2):
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
if tracker is not None:
    print(tracker.get_tracker_snapshot("peak")[x.device]["Total"])
dist.destroy_process_group()

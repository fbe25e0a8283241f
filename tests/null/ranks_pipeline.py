"""A stage of a pipeline in each rank, and DDP's checks of its ranks; the ranks' tests run it."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
settings = [{"width": 1024} if rank == 0 else None]
dist.broadcast_object_list(settings, 0)
width = settings[0]["width"]

copies = nn.parallel.DistributedDataParallel(nn.Linear(width, width, device="cuda"))
copies(torch.ones(4, width, device="cuda")).sum().backward()

between = torch.randn(4096, width, device="cuda", requires_grad=True)
stage = PipelineStage(
    nn.Linear(width, width, device="cuda"),
    rank,
    size,
    torch.device("cuda"),
    input_args=between,
    output_args=between.clone(),
)
schedule = Schedule1F1B(stage, n_microbatches=size, loss_fn=lambda out, target: out.sum())
batch = torch.randn(4096 * size, width, device="cuda")
if rank == 0:
    schedule.step(batch)
elif rank == size - 1:
    schedule.step(target=batch)
else:
    schedule.step()

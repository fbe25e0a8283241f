"""A program of FSDP2 and tensor parallelism as PyTorch's tutorial writes it, for torchrun.

``torchrun --nproc-per-node 8 benchmarks/ranks_mesh_program.py 2``: 2 ranks share each layer.
"""

import os
import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

D, WIDTH, N = 4096, 14336, 8192


class FeedForward(nn.Module):
    """The feed-forward layer of Llama 3 8B."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(D)
        self.gate, self.up = nn.Linear(D, WIDTH, bias=False), nn.Linear(D, WIDTH, bias=False)
        self.down = nn.Linear(WIDTH, D, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the layer's output, [B, N, D], like ``x``."""
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def main(tp: int) -> None:
    """Trains two steps."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    world = int(os.environ["WORLD_SIZE"])
    mesh = init_device_mesh("cuda", (world // tp, tp), mesh_dim_names=("dp", "tp"))
    with torch.device("cuda"):
        model = nn.Sequential(FeedForward(), FeedForward())
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    plan = {"gate": ColwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
    for layer in model:
        if tp > 1:
            parallelize_module(layer, mesh["tp"], plan)
        fully_shard(layer, mesh=mesh["dp"], mp_policy=policy)
    fully_shard(model, mesh=mesh["dp"], mp_policy=policy)
    torch.cuda.reset_peak_memory_stats()  # without the whole model, which was made first
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(2):
        x = torch.randn(1, N, D, device="cuda", dtype=torch.bfloat16)
        model(x).float().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""Programs of one rank of four: collectives, DTensor, tensor parallelism, FSDP2.

``tests/null/record_ranks.py`` runs this file on a null device, as one rank.
"""

import gc
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

W, RANK = 4, 1
N = 1000


def ones(*shape, **options):
    return torch.ones(*shape, device="cuda", **options)


def parts():
    return [torch.empty(N, device="cuda") for _ in range(W)]


def mesh():
    return init_device_mesh("cuda", (W,), mesh_dim_names=("tp",))


def group():
    return dist.group.WORLD


def gathered_later():
    x, whole = ones(N), torch.empty(N * W, device="cuda")
    work = dist.all_gather_into_tensor(whole, x, async_op=True)
    del x
    y = ones(3 * N)
    work.wait()
    del y
    return ones(4 * N), whole


def parts_gathered_later():
    x, into = ones(N), parts()
    work = dist.all_gather(into, x, async_op=True)
    del x
    y = ones(3 * N)
    work.wait()
    return ones(4 * N), y


def reduced_later():
    x = ones(N)
    work = dist.all_reduce(x, async_op=True)
    del x
    y = ones(3 * N)
    work.wait()
    return ones(2 * N), y


def gathered_for_use():
    y = functional.all_gather_tensor(ones(N) * 2, 0, group())
    z = ones(5 * N)
    return y + 1, z


def coalesced():
    x, y = ones(N), ones(N)
    with dist._coalescing_manager(device=torch.device("cuda")):
        dist.all_reduce(x)
        dist.all_reduce(y)


def objects():
    found = [None] * W
    dist.all_gather_object(found, {"rank": RANK})


class MLP(nn.Module):
    def __init__(self, d=256, f=1024):
        super().__init__()
        self.a = nn.Linear(d, f, device="cuda")
        self.b = nn.Linear(f, d, device="cuda")

    def forward(self, x):
        return self.b(F.silu(self.a(x)))


class Attention(nn.Module):
    def __init__(self, d=256, heads=8):
        super().__init__()
        self.q, self.k, self.v, self.o = (
            nn.Linear(d, d, device="cuda", bias=False) for _ in range(4)
        )
        self.d = d // heads

    def forward(self, x):
        B, N, _ = x.shape
        q, k, v = (
            part(x).view(B, N, -1, self.d).transpose(1, 2) for part in (self.q, self.k, self.v)
        )
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(out.transpose(1, 2).reshape(B, N, -1))


class Block(nn.Module):
    def __init__(self, d=256):
        super().__init__()
        self.n1, self.n2 = (nn.LayerNorm(d, device="cuda") for _ in range(2))
        self.att, self.mlp = Attention(d), MLP(d)

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.mlp(self.n2(x))


COLUMNS = {f"att.{name}": ColwiseParallel() for name in "qkv"} | {"mlp.a": ColwiseParallel()}


def steps(model, shape=(4, 128, 256), **options):
    optimizer = torch.optim.AdamW(model.parameters(), **options)
    x = ones(*shape)
    for _ in range(2):
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def parallel_mlp():
    plan = {"a": ColwiseParallel(), "b": RowwiseParallel()}
    steps(parallelize_module(MLP(), mesh(), plan))


def parallel_block():
    plan = {**COLUMNS, "att.o": RowwiseParallel(), "mlp.b": RowwiseParallel()}
    model = parallelize_module(Block(), mesh(), plan)
    model(ones(4, 128, 256, requires_grad=True)).sum().backward()


def sequence_parallel_block():
    whole = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    plan = {
        **COLUMNS,
        "n1": SequenceParallel(),
        "att": whole,
        "att.o": RowwiseParallel(output_layouts=Shard(1)),
        "n2": SequenceParallel(),
        "mlp": whole,
        "mlp.b": RowwiseParallel(output_layouts=Shard(1)),
    }
    model = parallelize_module(Block(), mesh(), plan)
    model(ones(4, 128 // W, 256, requires_grad=True)).sum().backward()


def distributed(*shape, dim=0, **options):
    return distribute_tensor(ones(*shape, **options), mesh(), [Shard(dim)]).requires_grad_()


def redistributed():
    x = distributed(1001, 64).detach()
    (x * 2).redistribute(x.device_mesh, [Replicate()]).to_local() + 1


def attention_of_dtensors():
    q, k, v = (distributed(2, 8, 128, 64, dim=1, dtype=torch.bfloat16) for _ in range(3))
    F.scaled_dot_product_attention(q, k, v, is_causal=True).to_local().sum().backward()


def dropout_of_a_dtensor():
    F.softmax(F.dropout(distributed(1024, 64), 0.1), -1).to_local().sum().backward()


def norm_of_a_dtensor():
    x = distributed(1024, 64)
    weight = distribute_tensor(ones(64), x.device_mesh, [Replicate()]).requires_grad_()
    F.silu(F.rms_norm(x, (64,), weight)).to_local().sum().backward()


def two_gradients_of_a_dtensor():
    y = distributed(1024, 64) * 2
    ((y * 3).exp() + (y * 4).exp()).to_local().sum().backward()


def sharded(over=None, **options):
    model = nn.Sequential(Block(), Block())
    for layer in model:
        fully_shard(layer, mesh=over or mesh(), **options)
    return fully_shard(model, mesh=over or mesh(), **options)


def sharded_in_bfloat16():
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    steps(sharded(mp_policy=policy))


def clipped():
    model = sharded()
    model(ones(4, 128, 256)).sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def two_dimensions():
    over = init_device_mesh("cuda", (2, W // 2), mesh_dim_names=("dp", "tp"))
    model = nn.Sequential(MLP(), MLP())
    for layer in model:
        plan = {"a": ColwiseParallel(), "b": RowwiseParallel()}
        fully_shard(parallelize_module(layer, over["tp"], plan), mesh=over["dp"])
    steps(fully_shard(model, mesh=over["dp"]))


PROGRAMS = {
    "all_reduce": lambda: dist.all_reduce(ones(N)),
    "all_gather": lambda: dist.all_gather(parts(), ones(N)),
    "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(ones(N * W), ones(N)),
    "reduce_scatter": lambda: dist.reduce_scatter(torch.empty(N, device="cuda"), parts()),
    "uneven parts": lambda: dist.reduce_scatter(ones(N + RANK), [ones(N + i) for i in range(W)]),
    "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(ones(N), ones(N * W)),
    "all_to_all": lambda: dist.all_to_all(parts(), parts()),
    "all_to_all_single": lambda: dist.all_to_all_single(ones(N * W), ones(N * W)),
    "broadcast": lambda: dist.broadcast(ones(N), 0),
    "reduce": lambda: dist.reduce(ones(N), 0),
    "gather": lambda: dist.gather(ones(N), None, dst=0),
    "scatter": lambda: dist.scatter(ones(N), None, src=0),
    "barrier": lambda: dist.barrier(),
    "functional": lambda: functional.reduce_scatter_tensor(ones(8, N * W), "sum", 1, group()) + 1,
    "gathered later": gathered_later,
    "parts gathered later": parts_gathered_later,
    "reduced later": reduced_later,
    "gathered for use": gathered_for_use,
    "coalesced": coalesced,
    "objects": objects,
    "mesh": lambda: (mesh(), ones(N)),
    "redistributed": redistributed,
    "attention of DTensors": attention_of_dtensors,
    "dropout of a DTensor": dropout_of_a_dtensor,
    "norm of a DTensor": norm_of_a_dtensor,
    "two gradients of a DTensor": two_gradients_of_a_dtensor,
    "parallel MLP, AdamW": parallel_mlp,
    "parallel block": parallel_block,
    "sequence parallel block": sequence_parallel_block,
    "FSDP2, AdamW": lambda: steps(sharded()),
    "FSDP2, fused AdamW": lambda: steps(sharded(), fused=True),
    "FSDP2, whole after forward": lambda: steps(sharded(reshard_after_forward=False)),
    "FSDP2 in bfloat16": sharded_in_bfloat16,
    "FSDP2, clipped": clipped,
    "HSDP": lambda: steps(
        sharded(init_device_mesh("cuda", (2, W // 2), mesh_dim_names=("r", "s")))
    ),
    "FSDP2 and tensor parallelism": two_dimensions,
}


def requested():
    return torch.cuda.memory_stats()["requested_bytes.all.current"]


def record(names):
    """Returns the peak of each program in requested bytes; those that it refuses are left out."""
    for dtype in (torch.float32, torch.bfloat16):
        a = torch.ones(64, 64, device="cuda", dtype=dtype, requires_grad=True)
        F.linear(a, a, a[0]).sum().backward()
        del a
    found = {}
    for name in names:
        for _ in range(3):  # autograd's thread and NCCL's may still free the last one
            gc.collect()
            time.sleep(0.05)
        torch.cuda.reset_peak_memory_stats()
        before = requested()
        try:
            PROGRAMS[name]()
        except RuntimeError as error:
            print(name, error, file=sys.stderr)
            continue
        found[name] = torch.cuda.memory_stats()["requested_bytes.all.peak"] - before
    return found


if __name__ == "__main__":
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(record(sys.argv[2:] or PROGRAMS), file)
    dist.destroy_process_group()

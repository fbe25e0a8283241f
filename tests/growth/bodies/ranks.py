"""Bodies of ranks and pipelines, whose growth is known by arithmetic."""

import torch
import torch.distributed as dist
from growth.contracts import grows


@grows(
    holds=("O(n^2 + n*rank)", "8*n*n + O(n*rank)"),
    breaks=("O(n*rank)", "4*n*n + O(n*rank)"),
    sizes={"n": 128, "rank": 8},
)
def low_rank_made_whole(device, n, rank):
    """A low-rank update that is made whole, beside an n by n weight: 8*n^2 + 8*n*rank bytes."""
    w = torch.empty(n, n, device=device)
    a, b = torch.empty(rank, n, device=device), torch.empty(n, rank, device=device)
    return w.add_(b @ a)


@grows(holds=("O(n*rank)",), breaks=("O(n)", "O(rank)"), sizes={"n": 128, "rank": 8})
def low_rank_product(device, n, rank):
    """A low-rank update by two thin products: 8*n*rank + 8*n bytes."""
    a, b = torch.empty(rank, n, device=device), torch.empty(n, rank, device=device)
    x = torch.zeros(n, device=device)
    return b @ (a @ x)


@grows(holds=("O(micro)",), breaks=("O(stages)",), sizes={"micro": 16, "stages": 4})
def pipeline_all_forward(device, micro, stages):
    """All micro-batches forward, then all backward: 1024*micro bytes."""
    return [torch.empty(256, device=device) for _ in range(micro)][:stages]


@grows(holds=("O(stages)",), breaks=("O(1)",), sizes={"micro": 16, "stages": 4})
def pipeline_in_flight(device, micro, stages):
    """One forward, one backward: as many micro-batches as stages, 1024*stages bytes."""
    flight = []
    for _ in range(micro):
        flight.append(torch.empty(256, device=device))
        if len(flight) == stages:
            flight.pop(0)


@grows(holds=("O(N/W + 1)",), breaks=("O(N/W)", "O(1)"), ranks=4, sizes={"N": 1024})
def ranks_that_shard_beside_a_constant(device, N):
    """A rank's share of the rows, and a buffer of 4 KiB on each: 4*256*N/W + 4096 bytes."""
    dist.init_process_group("nccl")
    share = torch.empty(N // dist.get_world_size(), 256, device=device)
    return share, torch.empty(1024, device=device)


@grows(holds=("O(layers/W)", "O(layers/W + 1)"), breaks=("O(1/W)",), ranks=4, sizes={"layers": 8})
def ranks_that_shard_layers(device, layers):
    """A rank's share of each layer: 4*4096*layers/W bytes."""
    dist.init_process_group("nccl")
    return [torch.empty(4096 // dist.get_world_size(), device=device) for _ in range(layers)]


@grows(holds=("O(N/W + N)", "O(N)"), breaks=("O(N/W)", "O(N/W + 1)"), ranks=4, sizes={"N": 1024})
def ranks_that_shard_one_of_two(device, N):
    """The rows are shared, their indices are on every rank: 4*256*N/W + 8*N bytes."""
    dist.init_process_group("nccl")
    share = torch.empty(N // dist.get_world_size(), 256, device=device)
    return share, torch.empty(N, dtype=torch.long, device=device)


@grows(holds=("O(N)",), breaks=("O(N/W)", "O(N/W + 1)"), ranks=4, sizes={"N": 64})
def ranks_that_share_nothing(device, N):
    """Every rank has all rows: 4*256*N bytes."""
    dist.init_process_group("nccl")
    return torch.empty(N, 256, device=device)


@grows(holds=("O(n)",), breaks=("O(1)", "O(ranks)"), sizes={"n": 4096, "ranks": 4})
def shard_of_a_rank(device, n, ranks):
    """The shard of one of several ranks: 4*n/ranks bytes, which is at most 4*n."""
    return torch.empty(n // ranks, device=device)


@grows(holds=("O(n*ranks)",), breaks=("O(n)", "O(n + ranks)"), sizes={"n": 256, "ranks": 8})
def shards_of_all_ranks(device, n, ranks):
    """An all-gather keeps the part of each rank: 4*n*ranks bytes."""
    return [torch.empty(n, device=device) for _ in range(ranks)]

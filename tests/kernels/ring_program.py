"""Runs ring attention in processes of their own: ``program.py FOLDER 5`` runs each fifth case.

Each rank of a ring of R leaves what it computed and measured in FOLDER/R/rank-N.pt.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch._dynamo  # by trackers: 2 s, which forked processes need not take again
import torch.distributed as dist
import torch.multiprocessing as mp
from kernels.programs import computed, poisoned, tensors, transposed

from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.kernels.ring import attention
from pytest_attnmem.measurement.garbage import freeze_present
from pytest_attnmem.measurement.window_stack import window

#: (B, H, N/R, M/R, d, dv): odd, single, longer and shorter, blocks of 4 that do and do not divide.
SIZES = (
    (1, 1, 1, 1, 1, 1),
    (2, 3, 9, 9, 4, 5),
    (1, 2, 3, 11, 8, 4),
    (1, 2, 11, 3, 4, 8),
    (1, 2, 12, 12, 16, 16),
)
#: At every size in single precision; each other type at one or two sizes.
CASES = tuple(
    (sizes, dtype, causal)
    for index, sizes in enumerate(SIZES)
    for dtype in (
        torch.float32,
        *{1: (torch.float64, torch.bfloat16), 3: (torch.float16,)}.get(index, ()),
    )
    for causal in (False, True)
)
OPTIONS = {"block_q": 4, "block_k": 4}
RANKS = (2, 4)
#: A forked process need not import torch again, which this one has not used.
START = "fork" if sys.platform == "linux" else "spawn"


def cases(ranks):
    """Returns every case for 2 ranks; more ranks differ in nothing but the steps of the ring."""
    if ranks == 2:
        return CASES
    return tuple(case for case in CASES if case[0] in SIZES[1:4] and case[1] == torch.float32)


def measured(backend, qkv, training, trace, **options):
    """The peak of a forward, or of both passes, and what is retained of it."""
    leaves = [x.clone().requires_grad_(training) for x in qkv]
    dist.barrier()
    with window(backend, trace=trace) as opened:
        out = attention(*leaves, **options)
        if training:
            out.sum().backward()
            out = None
    seen = opened.measurement
    return seen.peak_bytes, seen.retained_bytes, seen.unmeasured


def refusal(call):
    """The error's type and text."""
    try:
        call()
    except (ValueError, RuntimeError) as error:
        return type(error).__name__, str(error)
    return None


def work(rank, ranks, folder, step):
    """One rank's part of everything."""
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store = (folder / "store").as_uri()
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    backend = open_backend("cpu")
    backend.prime()
    measured(backend, [torch.ones(1, 1, 1, 1)] * 3, True, True)
    freeze_present()  # a collection before each window costs 70 ms otherwise
    results = {}
    for case in cases(ranks)[::step]:
        sizes, dtype, causal = case
        mine = [x.chunk(ranks, 2)[rank].contiguous() for x in tensors(sizes, dtype, ranks)]
        options = {"causal": causal, **OPTIONS}
        with poisoned():
            again = computed(attention, mine, **options)
        results[case] = {
            "computed": computed(attention, mine, **options),
            "again": again,
            "threads": backend.symbols["threads"],
            "peaks": {
                (training, trace): measured(backend, mine[:3], training, trace, **options)
                for training in (False, True)
                for trace in (False, True)
            },
        }
    results["scale"] = computed(attention, mine, scale=0.7)[0]
    results["strided"] = computed(attention, transposed(mine), **options)[0]
    x = torch.zeros(1, 1, 3 + rank, 2)
    results["uneven"] = refusal(lambda: attention(x, x, x))
    pair = dist.new_group([0, 1])
    last = dist.new_group([ranks - 1])
    q = torch.full((1, 1, 2, 2), float(rank))
    for name, group, members in (("pair", pair, (0, 1)), ("last", last, (ranks - 1,))):
        if rank in members:
            results[name] = attention(q, q, q, group=group)
        else:
            results[name] = refusal(lambda group=group: attention(q, q, q, group=group))
    torch.save(results, folder / f"rank-{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    freeze_present()
    for count in RANKS:
        destination = Path(sys.argv[1]) / str(count)
        destination.mkdir()
        given = count, destination, int(sys.argv[2])
        mp.start_processes(work, given, nprocs=count, start_method=START)

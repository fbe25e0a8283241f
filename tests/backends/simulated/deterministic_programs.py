"""Programs under ``torch.use_deterministic_algorithms``, which fills new memory and sorts places.

A program without a deterministic algorithm raises on a device, and is not recorded.
"""

import itertools

import torch
import torch.nn.functional as F
from listed_programs import made
from torch.utils import deterministic

PROGRAMS = {}


def add(name, function, fill=True):
    def run():
        torch.use_deterministic_algorithms(True)
        deterministic.fill_uninitialized_memory = fill
        try:
            function()
        finally:
            deterministic.fill_uninitialized_memory = True
            torch.use_deterministic_algorithms(False)

    PROGRAMS[name] = run


def places(*shape, dtype=torch.int64):
    return torch.zeros(shape, dtype=dtype, device="cuda")


def put(accumulate, index, values):
    x = made(60, 50)
    x.index_put_(index, values, accumulate)
    x.index_put(index, values, accumulate)


def embedded(count, dtype):
    F.embedding(places(count, dtype=dtype), made(100, 32, grad=True)).sum().backward()


def attended(dtype):
    q, k, v = (made(2, 3, 70, 64, dtype=dtype, grad=True) for _ in range(3))
    F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()


def normed(*shape):
    norm = torch.nn.GroupNorm(3, 6, device="cuda")
    norm(made(*shape, grad=True)).sum().backward()


def trained(kind, **options):
    model = torch.nn.Sequential(torch.nn.Embedding(50, 30), torch.nn.Linear(30, 50)).to("cuda")
    optimizer = kind(model.parameters(), lr=0.1, **options)
    for _ in range(2):
        F.cross_entropy(model(places(7)), places(7)).backward()
        optimizer.step()
        optimizer.zero_grad()


for size, kind in itertools.product((5, 20_000, 1_000_001), (torch.float32, torch.int64)):
    add(f"cumsum {size} {kind}", lambda n=size, t=kind: made(n, dtype=t).cumsum_(0))
for rows, size in itertools.product((1, 200), (40, 3000)):
    add(f"sort {rows} {size}", lambda r=rows, n=size: made(r, n).sort(dim=1))
for adds in (False, True):
    add(f"put {adds}", lambda a=adds: put(a, (places(7),), made(7, 50)))
    add(f"put pairs {adds}", lambda a=adds: put(a, (places(7),) * 2, made(7)))
    add(f"put one {adds}", lambda a=adds: put(a, (places(7),), made(1)))
for count, kind in itertools.product((5, 4000), (torch.int64, torch.int32)):
    add(f"embedding {count} {kind}", lambda n=count, t=kind: embedded(n, t))
for kind in (torch.float32, torch.float16):
    add(f"attention {kind}", lambda t=kind: attended(t))
for shape in ((4, 6), (4, 6, 5, 5)):
    add(f"group norm {shape}", lambda s=shape: normed(*s))
add("AdamW", lambda: trained(torch.optim.AdamW))
add("AdamW fused", lambda: trained(torch.optim.AdamW, fused=True))
add("SGD", lambda: trained(torch.optim.SGD, foreach=False))
add("resize_", lambda: places(0).resize_(700))
add("resize_ larger", lambda: made(500).resize_(700))
add("sum into nothing", lambda: torch.sum(made(30, 40), 0, out=made(0)))
add("product into nothing", lambda: torch.mm(made(30, 40), made(40, 50), out=made(0)))
add("arange into nothing", lambda: torch.arange(40, out=places(0)))
add("isclose", lambda: torch.isclose(made(50, 60), made(50, 60)))
add("by a mask", lambda: made(50, 60)[made(50, 60) > 0])
add("var_mean", lambda: torch.var_mean(made(50, 60), dim=1))
add("norm", lambda: torch.linalg.vector_norm(made(50, 60)))
add("arange, not filled", lambda: torch.arange(5, device="cuda"), fill=False)
add("resize_, not filled", lambda: places(0).resize_(700), fill=False)
add("where, not filled", lambda: torch.where(made(9) > 0, made(9), made(9)), fill=False)

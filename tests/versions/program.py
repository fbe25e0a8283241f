"""What the table of versions runs on the null device: ``program.py PART``; prints what it saw."""

import importlib
import json
import math
import pkgutil
import sys

import torch
from torch.nn.functional import conv2d, scaled_dot_product_attention


def measured(run):
    """Returns the highest bytes that a call allocates."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    return torch.cuda.max_memory_allocated() - before


def known(value, expected):
    """Returns whether a value is right; None if nobody knows it."""
    return None if math.isnan(value) else value == expected


def starts():
    """Every module of the package can be imported beside this PyTorch."""
    import pytest_attnmem

    def skip(name):
        """Goes on past the simulated devices, whose rules are of newer releases."""

    found = pkgutil.walk_packages(pytest_attnmem.__path__, "pytest_attnmem.", skip)
    newer = ("pytest_attnmem.backends.simulated",)
    names = [one.name for one in found if not one.name.startswith(newer)]
    return [all(importlib.import_module(name) for name in names if not name.endswith("__main__"))]


def eager():
    """Forward, backward and AdamW of a layer, and the three kernels of attention."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0, batch_first=True).cuda()
    optimizer = torch.optim.AdamW(layer.parameters())
    tokens = torch.ones(4, 512, 256, device="cuda")

    def step():
        layer(tokens).sum().backward()
        optimizer.step()

    def attention(backend):
        q = torch.ones(2, 8, 1024, 64, device="cuda", dtype=torch.float16, requires_grad=True)
        with sdpa_kernel(backend):
            scaled_dot_product_attention(q, q, q).sum().backward()

    kernels = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)
    return [measured(step), *(measured(lambda each=each: attention(each)) for each in kernels)]


def values():
    """A value that a product and a sum computed."""
    a = torch.arange(6.0, device="cuda").reshape(2, 3)
    return [known((a @ a.T).sum().item(), 83)]


def modes():
    """The operations that a dispatch mode of PyTorch's counts, and the value and bytes under it."""
    from torch.utils.flop_counter import FlopCounterMode

    a = torch.arange(6.0, device="cuda").reshape(2, 3)
    with FlopCounterMode(display=False) as counter:
        value = (a @ a.T).sum().item()
    return [known(value, 83), known(counter.get_total_flops(), 24)]


def triton():
    """The bytes of a kernel of Triton's."""
    return [measured(lambda: doubled(torch.ones(1000, device="cuda")))]


def values_after_triton():
    """The values that a kernel of Triton's wrote."""
    return [known(doubled(torch.ones(1000, device="cuda")).sum().item(), 2000)]


def doubled(x):
    """Returns twice a tensor, by a kernel."""
    import triton
    from kernel import double

    out = torch.empty_like(x)
    double[(triton.cdiv(len(x), 256),)](x, out, len(x), BLOCK=256)
    return out


def compiled():
    """The bytes of a compiled function, forward and backward."""
    function = torch.compile(lambda x: (x.sin() * 2).relu().sum())
    x = torch.ones(256, 256, device="cuda", requires_grad=True)
    function(x).backward()
    return [measured(lambda: function(x).backward())]


def compiled_product():
    """The bytes of a compiled product, whose output is a view that PyTorch makes outside."""
    function = torch.compile(lambda x: x.softmax(-1) @ x)
    x = torch.ones(4, 64, 64, device="cuda", requires_grad=True)
    function(x).sum().backward()
    return [measured(lambda: function(x).sum().backward())]


def values_of_compiled():
    """The value of a compiled function."""
    function = torch.compile(lambda x: (x * 2).sum())
    return [known(function(torch.ones(256, device="cuda")).item(), 512)]


def ranks():
    """An all-reduce by NCCL and a step of DistributedDataParallel, on one rank of two.

    And an embedding whose rows they share, which DTensor masks by the values of the indices.
    """
    import torch.distributed as dist
    from torch.distributed._tensor import Replicate
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import RowwiseParallel, parallelize_module

    dist.init_process_group("nccl")
    total = torch.ones(4, device="cuda")
    dist.all_reduce(total)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(256, 256).cuda())
    peak = measured(lambda: model(torch.ones(8, 256, device="cuda")).sum().backward())
    shared = RowwiseParallel(input_layouts=Replicate())
    embedding = parallelize_module(
        torch.nn.Embedding(64, 8, device="cuda"), init_device_mesh("cuda", (2,)), shared
    )
    embedding(torch.arange(64, device="cuda"))
    return [known(total.sum().item(), 8), peak]


def cudnn():
    """A convolution that cuDNN plans, forward and backward."""
    x = torch.ones(8, 16, 28, 28, device="cuda", requires_grad=True)
    w = torch.ones(32, 16, 3, 3, device="cuda", requires_grad=True)
    return [measured(lambda: conv2d(x, w, padding=1).sum().backward())]


if __name__ == "__main__":
    print("answer", json.dumps(globals()[sys.argv[1]]()), flush=True)

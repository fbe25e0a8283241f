"""What the programs share that run a kernel in processes of their own, and their tests."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from types import ModuleType

import torch
from torch.autograd.graph import saved_tensors_hooks


def run(program: ModuleType, *arguments: object, **variables: str) -> None:
    """Runs a program, with more variables in its environment."""
    paths = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, str(program.__file__), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": paths, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def tensors(sizes, dtype, ranks=1):
    """q, k, v and the weights of the loss, of all ranks: the same in every process."""
    B, H, n, m, d, dv = sizes
    N, M = n * ranks, m * ranks
    random = torch.Generator().manual_seed(0)
    return [
        torch.randn(shape, generator=random, dtype=torch.float64).to(dtype)
        for shape in ((B, H, N, d), (B, H, M, d), (B, H, M, dv), (B, H, N, dv))
    ]


def exact(inputs, causal=False, scale=None):
    """The output, three gradients and the logarithms of sums of attention, in float64."""
    *qkv, weights = (x.double() for x in inputs)
    q, k, v = leaves = [x.requires_grad_() for x in qkv]
    scores = q @ k.mT * (q.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        future = torch.ones(scores.shape[2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -torch.inf)
    out = scores.softmax(-1) @ v
    gradients = torch.autograd.grad((out * weights).sum(), leaves)
    return [out.detach(), *gradients], scores.logsumexp(-1).detach()


def hold(found, expected, tolerance):
    """Checks an output, and its gradients relative to the largest of each above 1."""
    for place, (got, wanted) in enumerate(zip(found, expected, strict=True)):
        size = max(1, float(wanted.abs().max())) if place else 1
        assert (got.double() - wanted).abs().max() <= tolerance * size


def saved(function):
    """The result of a function, and the tensors that autograd saves meanwhile."""
    kept = []

    def pack(tensor):
        kept.append(tensor)
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        return function(), kept


def computed(attention, inputs, **options):
    """The output and three gradients, and the tensors that are saved for them."""
    *qkv, weights = inputs
    leaves = [x.clone().requires_grad_() for x in qkv]
    out, kept = saved(lambda: attention(*leaves, **options))
    gradients = torch.autograd.grad((out * weights).sum(), leaves)
    same = [x.data_ptr() for x in kept[:4]] == [x.data_ptr() for x in (*leaves, out)]
    assert same, "inputs and output are saved first"
    return [out.detach(), *gradients], kept[4:]


@contextmanager
def poisoned():
    """Has ``torch.empty`` return NaN."""
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def transposed(inputs):
    """The same tensors, laid out as [B, N, H, d]."""
    return [x.transpose(1, 2).contiguous().transpose(1, 2) for x in inputs]

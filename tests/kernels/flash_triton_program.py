"""Runs the cases of flash_triton in Triton's interpreter: ``program.py FILE``.

Triton decides at its import to interpret programs, so this is a process of its own.
"""

from __future__ import annotations

import itertools
import sys

import torch
from torch.autograd.graph import saved_tensors_hooks

from pytest_attnmem.kernels.flash_triton import attention

#: (B, H, N, M, d, dv); tiles are of 16 by 32, and blocks of at least 16 columns.
SIZES = (
    (1, 1, 1, 1, 1, 1),
    (2, 3, 1, 7, 4, 5),
    (2, 3, 7, 1, 4, 5),
    (2, 2, 33, 100, 16, 8),
    (1, 2, 100, 33, 24, 40),
    (1, 1, 64, 64, 64, 64),
)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
CASES = tuple(itertools.product(SIZES, DTYPES, (False, True)))


def tensors(sizes, dtype):
    """q, k, v and the weights of the loss."""
    B, H, N, M, d, dv = sizes
    random = torch.Generator().manual_seed(0)
    return [
        torch.randn(shape, generator=random, dtype=torch.float64).to(dtype)
        for shape in ((B, H, N, d), (B, H, M, d), (B, H, M, dv), (B, H, N, dv))
    ]


def computed(inputs, **options):
    """The output and three gradients, and the tensors that are saved for them."""
    *qkv, weights = inputs
    saved = []

    def pack(tensor):
        saved.append(tensor)
        return tensor

    leaves = [x.clone().requires_grad_() for x in qkv]
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        out = attention(*leaves, **options)
    gradients = torch.autograd.grad((out * weights).sum(), leaves)
    same = [kept.data_ptr() for kept in saved[:4]] == [x.data_ptr() for x in (*leaves, out)]
    return [out.detach(), *gradients], saved[4:] if same else saved


def poisoned(call):
    """Returns the result of a call during which ``torch.empty`` returns NaN."""
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        return call()
    finally:
        torch.use_deterministic_algorithms(False)


def main(destination):
    """Leave the results of every case in a file."""
    torch.set_num_threads(1)
    results = {}
    for case in CASES:
        sizes, dtype, causal = case
        inputs = tensors(sizes, dtype)
        results[case] = {
            "computed": computed(inputs, causal=causal),
            "again": poisoned(lambda x=inputs, c=causal: computed(x, causal=c))[0],
        }
    results["scale"] = computed(inputs, scale=0.7)[0]
    strided = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in inputs]
    results["strided"] = computed(strided, causal=True)[0]
    empty = [torch.zeros(2, 2, n, 4, requires_grad=True) for n in (0, 5, 5)]
    out = attention(*empty)
    out.sum().backward()
    results["empty"] = [out.detach(), *(x.grad for x in empty)]
    torch.save(results, destination)


if __name__ == "__main__":
    main(sys.argv[1])

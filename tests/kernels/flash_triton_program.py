"""Runs the cases of flash_triton in Triton's interpreter: ``program.py FILE``.

Triton decides at its import to interpret programs, so this is a process of its own.
"""

from __future__ import annotations

import itertools
import sys

import torch
from kernels.programs import computed, poisoned, tensors, transposed

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


def main(destination):
    """Leave the results of every case in a file."""
    torch.set_num_threads(1)
    results = {}
    for case in CASES:
        sizes, dtype, causal = case
        inputs = tensors(sizes, dtype)
        found = computed(attention, inputs, causal=causal)
        with poisoned():
            again, _ = computed(attention, inputs, causal=causal)
        results[case] = {"computed": found, "again": again}
    results["scale"] = computed(attention, inputs, scale=0.7)[0]
    results["strided"] = computed(attention, transposed(inputs), causal=True)[0]
    empty = [torch.zeros(2, 2, n, 4, requires_grad=True) for n in (0, 5, 5)]
    out = attention(*empty)
    out.sum().backward()
    results["empty"] = [out.detach(), *(x.grad for x in empty)]
    torch.save(results, destination)


if __name__ == "__main__":
    main(sys.argv[1])

"""Kernels refuse inputs that do not fit with one line: the contract, then the fact."""

from __future__ import annotations

import re

import pytest
import torch

from pytest_attnmem.kernels import KERNELS
from pytest_attnmem.kernels.input_checks import check_inputs

from .references import over


def shaped(q=(2, 4, 10, 64), k=(2, 4, 12, 64), v=(2, 4, 12, 64)):
    return [torch.zeros(shape) for shape in (q, k, v)]


Q = "q must have shape [B, H, N, d] with d >= 1, got "
K = "k must have shape [B, H, M, d] = [2, 4, M, 64] with M >= 1, got "
V = "v must have shape [B, H, M, dv] = [2, 4, 12, dv], got "
DTYPES = "q must be of one of torch.float16, torch.bfloat16, torch.float32, torch.float64, got "
OTHER = "must be of q's dtype, torch.float32, got torch."
q, k, v = shaped()
MISFITS = [
    (shaped(q=(4, 10, 64)), f"{Q}[4, 10, 64]"),
    (shaped(q=(2, 4, 10, 0)), f"{Q}[2, 4, 10, 0]"),
    (shaped(k=(2, 3, 12, 64)), f"{K}[2, 3, 12, 64]"),
    (shaped(k=(1, 4, 12, 64)), f"{K}[1, 4, 12, 64]"),
    (shaped(k=(2, 4, 12, 32)), f"{K}[2, 4, 12, 32]"),
    (shaped(k=(12, 64)), f"{K}[12, 64]"),
    (shaped(k=(2, 4, 0, 64)), f"{K}[2, 4, 0, 64]"),
    (shaped(v=(2, 4, 13, 64)), f"{V}[2, 4, 13, 64]"),
    (shaped(v=(2, 4, 12)), f"{V}[2, 4, 12]"),
    ([tensor.long() for tensor in (q, k, v)], f"{DTYPES}torch.int64"),
    ([tensor.to(torch.complex64) for tensor in (q, k, v)], f"{DTYPES}torch.complex64"),
    ([tensor.to(torch.float8_e5m2) for tensor in (q, k, v)], f"{DTYPES}torch.float8_e5m2"),
    ([q, k.half(), v], f"k {OTHER}float16"),
    ([q, k, v.double()], f"v {OTHER}float64"),
    ([q, k, v.to("meta")], "v must be on q's device, cpu, got meta"),
]


@over(KERNELS)
@pytest.mark.parametrize(("tensors", "message"), MISFITS, ids=[text for _, text in MISFITS])
def test_inputs_that_do_not_fit(kernel, tensors, message):
    if kernel.gqa:
        heads = "[2, Hkv, M, 64] with M >= 1 and Hkv a divisor of H = 4"
        message = message.replace("[B, H, M", "[B, Hkv, M")
        message = message.replace("[2, 4, M, 64] with M >= 1", heads)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        kernel.attention(*tensors, causal=kernel.causal[0])


DTYPE = "mask must be of torch.bool or q's dtype, torch.float32, got "
SHAPE = "mask must broadcast to [B, H, N, M] = [2, 4, 10, 12], got "
BAD_MASKS = [
    (torch.ones(10, 12, dtype=torch.int64), f"{DTYPE}torch.int64"),
    (torch.ones(10, 12, dtype=torch.float64), f"{DTYPE}torch.float64"),
    (torch.ones(12, 10, dtype=torch.bool), f"{SHAPE}[12, 10]"),
    (torch.ones(3, 1, 1, 12, dtype=torch.bool), f"{SHAPE}[3, 1, 1, 12]"),
    (torch.ones(1, 1, 1, 1, 1, dtype=torch.bool), f"{SHAPE}[1, 1, 1, 1, 1]"),
    (torch.ones(12, dtype=torch.bool, device="meta"), "mask must be on q's device, cpu, got meta"),
]


@over([kernel for kernel in KERNELS if kernel.mask])
@pytest.mark.parametrize(("mask", "message"), BAD_MASKS, ids=[text for _, text in BAD_MASKS])
def test_masks_that_do_not_fit(kernel, mask, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        kernel.attention(*shaped(), mask=mask)


@pytest.mark.parametrize(
    "shape",
    [(), (12,), (1,), (10, 1), (1, 12), (4, 10, 12), (2, 1, 1, 12), (2, 4, 10, 12)],
    ids=str,
)
def test_masks_that_broadcast(shape):
    check_inputs(*shaped(), torch.ones(shape, dtype=torch.bool))
    check_inputs(*shaped(), torch.ones(shape))


def test_sizes_that_are_free():
    check_inputs(*shaped(q=(2, 4, 1, 1), k=(2, 4, 12, 1), v=(2, 4, 12, 5)))
    check_inputs(*shaped(q=(0, 4, 10, 64), k=(0, 4, 12, 64), v=(0, 4, 12, 64)))

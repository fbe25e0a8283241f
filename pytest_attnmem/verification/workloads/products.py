"""Matrix products in every dtype that a product takes."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from ..workload import Workload
from .inputs import bf16, fp16, fp32, fp64, made, train


def _square(dtype: torch.dtype) -> None:
    """Runs a product of matrices, and backward."""
    train(made(777, 640, dtype=dtype) @ made(640, 512, dtype=dtype))


def _batched(dtype: torch.dtype) -> None:
    """Runs a product of 24 pairs of matrices, and backward."""
    train(torch.bmm(made(24, 300, 200, dtype=dtype), made(24, 200, 100, dtype=dtype)))


def _linear(dtype: torch.dtype) -> None:
    """Runs a linear layer with a bias, and backward."""
    layer = nn.Linear(640, 1000, device="cuda", dtype=dtype)
    train(layer(made(4, 333, 640, dtype=dtype)))


def _integers() -> torch.Tensor:
    """Returns a product of int8 in int32."""
    a = torch.ones(256, 512, dtype=torch.int8, device="cuda")
    b = torch.ones(384, 512, dtype=torch.int8, device="cuda")
    return torch._int_mm(a, b.t())


def _vectors() -> None:
    """Runs a product of a matrix and a vector, and an outer product, and backward."""
    train(torch.outer(made(900, 300) @ made(300), made(500)))


def _contraction() -> None:
    """Runs a contraction of three tensors, and backward."""
    a, b, c = made(4, 8, 200, 32), made(4, 8, 32, 48), made(8, 48)
    train(torch.einsum("bhnd,bhde,he->bhn", a, b, c))


PRODUCTS = (
    Workload("product/fp64", partial(_square, fp64)),
    Workload("product/fp32", partial(_square, fp32)),
    Workload("product/fp16", partial(_square, fp16)),
    Workload("product/bf16", partial(_square, bf16)),
    Workload("product/complex64", partial(_square, torch.complex64)),
    Workload("product/int8", _integers),
    Workload("product/batched-fp32", partial(_batched, fp32)),
    Workload("product/batched-bf16", partial(_batched, bf16)),
    Workload("product/linear-fp32", partial(_linear, fp32)),
    Workload("product/linear-fp16", partial(_linear, fp16)),
    Workload("product/vectors", _vectors),
    Workload("product/contraction", _contraction),
)

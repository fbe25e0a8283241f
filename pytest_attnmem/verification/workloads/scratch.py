"""Operators whose kernels take memory of their own."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ..workload import Workload
from .inputs import fp16, made, tokens, train


def _sorted() -> None:
    """Runs a sort of long rows, the 50 largest of each, and backward."""
    x = made(20, 30_000)
    train(x.sort(-1).values[:, :50] + x.topk(50).values)


def _summed() -> torch.Tensor:
    """Returns the running sum of 2 million integers."""
    return torch.ones(2_000_000, dtype=torch.int64, device="cuda").cumsum(0)


def _reduced() -> None:
    """Runs reductions of one long row, whose blocks write partial results, and backward."""
    x = made(3_000_000)
    (x.norm() + x.logsumexp(0) + x.amax()).backward()


def _normalised() -> None:
    """Runs layer norm, softmax and dropout of wide rows, and backward."""
    x = made(700, 5000, dtype=fp16)
    train(F.dropout(F.layer_norm(x, (5000,)).log_softmax(-1), 0.1))


def _embedded() -> None:
    """Runs a lookup of 9000 rows and its backward, which sorts the indices."""
    train(F.embedding(tokens(9, 1000, 800), made(800, 128)))


def _scattered() -> None:
    """Runs additions to rows by index, and backward."""
    where = tokens(1, 5000, 300)[0]
    train(torch.zeros(300, 64, device="cuda").index_add(0, where, made(5000, 64)))


SCRATCH = (
    Workload("scratch/sort-topk", _sorted),
    Workload("scratch/cumsum-int64", _summed),
    Workload("scratch/reductions", _reduced),
    Workload("scratch/norm-softmax-dropout", _normalised),
    Workload("scratch/embedding", _embedded),
    Workload("scratch/index-add", _scattered),
)

"""The size of a communicator that NCCL splits from another, which the other ranks decide too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .counts import runtime


@contextmanager
def splitting(ranks: int, rank: int) -> Iterator[None]:
    """Makes communicators that are split inside have so many ranks, of which this is one."""
    runtime().attnmem_null_split(ranks, rank)
    try:
        yield
    finally:
        runtime().attnmem_null_split(0, 0)

"""The sequences of one call of attention, packed one after another or as a batch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch


class Part(NamedTuple):
    """Sequences of one length: their places in the batch, and their rows of queries and keys."""

    place: int
    batch: slice
    queries: slice
    keys: slice

    def of_queries(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the view [b, H, n, d] of a tensor [B, N, H, d] or packed [T, H, d]."""
        return _batched(tensor)[self.batch, self.queries].transpose(1, 2)

    def of_keys(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the view [b, H, m, d] of a tensor [B, M, H, d] or packed [T, H, d]."""
        return _batched(tensor)[self.batch, self.keys].transpose(1, 2)

    @property
    def lengths(self) -> tuple[int, int]:
        """Returns the queries and the keys of each sequence."""
        return self.queries.stop - self.queries.start, self.keys.stop - self.keys.start


def parts(
    query: torch.Tensor,
    key: torch.Tensor,
    ends_q: torch.Tensor | None,
    ends_k: torch.Tensor | None,
    used_keys: torch.Tensor | None = None,
) -> list[Part]:
    """Returns the sequences of a call.

    Args:
        query: [B, N, H, d] or packed [T, H, d].
        key: the same of keys.
        ends_q: where each packed sequence of queries begins, and the last ends, [sequences + 1].
        ends_k: the same of keys.
        used_keys: how many keys of each sequence are used, [sequences]; all if None.
    """
    whole = slice(None)
    used = None if used_keys is None else used_keys.tolist()
    if ends_q is None or ends_k is None:
        rows, columns = slice(0, query.shape[1]), slice(0, key.shape[1])
        if used is None:
            return [Part(0, whole, rows, columns)]
        return [Part(i, slice(i, i + 1), rows, slice(0, keys)) for i, keys in enumerate(used)]
    of_queries, of_keys = _spans(ends_q.tolist()), _spans(ends_k.tolist())
    if used is not None:
        of_keys = [slice(span.start, span.start + n) for span, n in zip(of_keys, used, strict=True)]
    return [
        Part(place, whole, rows, columns)
        for place, (rows, columns) in enumerate(zip(of_queries, of_keys, strict=True))
    ]


def _spans(ends: Sequence[int]) -> list[slice]:
    return [slice(start, end) for start, end in pairwise(ends)]


def _batched(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.dim() == 4 else tensor.unsqueeze(0)

"""Decoding with a paged cache: a block table says which pages of a shared pool a sequence has."""

from __future__ import annotations

import torch
from torch import Tensor

from ..budgets.memory_model import MemoryModel, Phase


class PagedCache:
    """A pool of pages of keys and values, and the pages of each sequence in the batch.

    A sequence takes a page when its last one is full, and gives its pages back when it ends, so
    that the pool bounds the memory whatever the lengths of the sequences are.
    """

    def __init__(
        self,
        pages: int,
        size: int,
        Hkv: int,
        d: int,
        *,
        dv: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        sizes = [(pages, Hkv, size, each) for each in (d, d if dv is None else dv)]
        self.keys, self.values = (torch.empty(each, dtype=dtype, device=device) for each in sizes)
        self.size = size
        """The positions of a page."""
        self.tables: list[list[int]] = []
        """The pages of each sequence, in the order of its positions."""
        self.lengths: list[int] = []
        self.free = [*range(pages)][::-1]

    def admit(self) -> int:
        """Adds an empty sequence at the end of the batch; returns its row."""
        self.tables.append([])
        self.lengths.append(0)
        return len(self.lengths) - 1

    def finish(self, row: int) -> None:
        """Removes a sequence from the batch, and gives its pages back; later rows move up."""
        self.free += reversed(self.tables.pop(row))
        self.lengths.pop(row)

    def extend(self, k: Tensor, v: Tensor) -> None:
        """Writes one more position of each sequence, k [B, Hkv, 1, d] and v [B, Hkv, 1, dv].

        Raises:
            ValueError: the pool has no page left for a sequence that needs one.
        """
        full = [row for row, length in enumerate(self.lengths) if not length % self.size]
        if len(full) > len(self.free):
            raise ValueError(
                f"cache must have {len(full)} free pages, got {len(self.free)} of"
                f" {self.keys.shape[0]}; finish a sequence, or make a larger pool"
            )
        for row in full:
            self.tables[row].append(self.free.pop())
        pages = torch.tensor([table[-1] for table in self.tables], device=k.device)  # [B]
        places = torch.tensor([n % self.size for n in self.lengths], device=k.device)  # [B]
        self.keys[pages, :, places], self.values[pages, :, places] = k[:, :, 0], v[:, :, 0]
        self.lengths = [length + 1 for length in self.lengths]

    def block_table(self) -> Tensor:
        """Returns the pages [B, blocks] of all sequences; shorter ones repeat their last page."""
        blocks = max(map(len, self.tables))
        rows = [[*table, *[table[-1]] * (blocks - len(table))] for table in self.tables]
        return torch.tensor(rows, device=self.keys.device)


def attention(
    q: Tensor, k: Tensor, v: Tensor, *, cache: PagedCache, scale: float | None = None
) -> Tensor:
    """Softmax attention of a new position of each sequence to all of its positions → [B, H, 1, dv].

    It reads one page of each sequence at a time. There is no backward pass.

    Args:
        q: [B, H, 1, d].
        k: [B, Hkv, 1, d], added to the cache; Hkv divides H.
        v: [B, Hkv, 1, dv].
        cache: The positions before; its batch has B sequences, which may differ in length.
        scale: The factor of the scores, ``d ** -0.5`` by default.

    Raises:
        ValueError: the inputs and the cache do not fit together, or the pool is full.

    O(page·d + M/page) memory beside the pool, O(M·d) time: Kwon et al., 2023 (arXiv 2309.06180),
    Efficient Memory Management for Large Language Model Serving with PagedAttention, section 4.1.
    """
    _check(q, k, v, cache)
    (B, H, _, d), (Hkv, dv) = q.shape, (k.shape[1], v.shape[3])
    cache.extend(k, v)
    size, group = cache.size, H // Hkv
    table = cache.block_table()  # [B, blocks]
    lengths = torch.tensor(cache.lengths, device=q.device)  # [B]
    places = torch.arange(size, device=q.device)  # [size]
    rows = q.mul(d**-0.5 if scale is None else scale).view(B * Hkv, group, d)
    highest = q.new_full((B * Hkv, group, 1), -torch.inf)
    total = q.new_zeros(B * Hkv, group, 1)
    out = q.new_zeros(B * Hkv, group, dv)
    for block in range(table.shape[1]):
        keys = cache.keys[table[:, block]].flatten(0, 1)  # [B·Hkv, size, d]
        scores = torch.bmm(rows, keys.mT)  # [B·Hkv, H/Hkv, size]
        del keys
        hidden = places.add(block * size) >= lengths[:, None]  # [B, size]
        scores.view(B, H, size).masked_fill_(hidden[:, None], -torch.inf)
        del hidden
        higher = torch.maximum(highest, scores.amax(-1, keepdim=True))
        weights = scores.sub_(higher).exp_()
        shrunk = highest.sub_(higher).exp_()  # what the sums so far lose by the new maximum
        total.mul_(shrunk).add_(weights.sum(-1, keepdim=True))
        values = cache.values[table[:, block]].flatten(0, 1)  # [B·Hkv, size, dv]
        out.mul_(shrunk).baddbmm_(weights, values)
        del scores, weights, values, shrunk
        highest = higher
    return out.div_(total).view(B, H, 1, dv)


def _check(q: Tensor, k: Tensor, v: Tensor, cache: PagedCache) -> None:
    B, H, N, d = q.shape
    Hkv, dv = cache.keys.shape[1], cache.values.shape[3]
    if len(cache.lengths) != B or N != 1 or d != cache.keys.shape[3] or H % Hkv:
        raise ValueError(
            f"q must have shape [B, H, 1, d] = [{len(cache.lengths)}, H, 1, {cache.keys.shape[3]}]"
            f" with H a multiple of {Hkv}, got {list(q.shape)}"
        )
    for name, new, width in (("k", k, d), ("v", v, dv)):
        if new.shape != (B, Hkv, 1, width):
            raise ValueError(f"{name} must have shape {[B, Hkv, 1, width]}, got {list(new.shape)}")


_STEP = {
    "table": "8*B*ceil(M/page)",
    "lengths, places": "8*B + 8*page",
    "rows": "B*H*d*itemsize",
    "highest, total": "2*B*H*itemsize",
    "out": "B*H*dv*itemsize",
}
_SCORES = "B*H*page*itemsize"
_ROW = "B*H*itemsize"

#: A step's peak beside the pool, whose bytes are ``pages*Hkv*page*(d + dv)*itemsize``; M counts the
#: positions of the longest sequence after it.
MODEL = MemoryModel(
    "paged",
    (
        Phase("scores", {**_STEP, "keys": "B*Hkv*page*d*itemsize", "scores": _SCORES}),
        Phase("mask", {**_STEP, "scores": _SCORES, "shifted": "8*page", "hidden": "B*page"}),
        Phase("maximum", {**_STEP, "scores": _SCORES, "largest": _ROW, "higher": _ROW}),
        Phase("sums", {**_STEP, "scores": _SCORES, "higher": _ROW, "sum": _ROW}),
        Phase(
            "values",
            {**_STEP, "scores": _SCORES, "higher": _ROW, "values": "B*Hkv*page*dv*itemsize"},
        ),
    ),
    {"N": 1, "page": 16},
)

"""Decoding, a step at a time, with a cache of keys and values: preallocated or growing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from ..budgets.memory_model import MemoryModel, Phase
from .input_checks import check_inputs


@dataclass(frozen=True, slots=True)
class StaticCache:
    """Room for ``capacity`` positions made once, [B, Hkv, capacity, …], written in place.

    A step returns a longer cache that shares the room; do not use the shorter cache again.
    """

    _keys: Tensor
    _values: Tensor
    _length: int = 0

    @classmethod
    def allocate(
        cls,
        B: int,
        Hkv: int,
        capacity: int,
        d: int,
        *,
        dv: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> StaticCache:
        """Returns an empty cache; it never allocates more than its room."""
        sizes = [(B, Hkv, capacity, size) for size in (d, d if dv is None else dv)]
        keys, values = (torch.empty(size, dtype=dtype, device=device) for size in sizes)
        return cls(keys, values)

    @property
    def k(self) -> Tensor:
        """The keys so far, [B, Hkv, M, d], a view."""
        return self._keys[:, :, : self._length]

    @property
    def v(self) -> Tensor:
        """The values so far, [B, Hkv, M, dv], a view."""
        return self._values[:, :, : self._length]

    def extended(self, k: Tensor, v: Tensor) -> StaticCache:
        """Returns the cache with n more positions, [B, Hkv, n, …]; allocates nothing.

        Raises:
            ValueError: the cache has no room for them.
        """
        n, capacity = k.shape[2], self._keys.shape[2]
        if self._length + n > capacity:
            raise ValueError(
                f"cache must have room for {n} more, got {self._length} of {capacity} in use"
            )
        rows = slice(self._length, self._length + n)
        self._keys[:, :, rows], self._values[:, :, rows] = k, v
        return replace(self, _length=rows.stop)


@dataclass(frozen=True, slots=True)
class GrowingCache:
    """A cache of M positions, [B, Hkv, M, …], copied to a longer tensor at each step.

    Both tensors exist during the copy, and as long as the caller keeps the old cache.
    """

    k: Tensor
    v: Tensor

    @classmethod
    def allocate(
        cls,
        B: int,
        Hkv: int,
        d: int,
        *,
        dv: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> GrowingCache:
        """Returns an empty cache."""
        sizes = [(B, Hkv, 0, size) for size in (d, d if dv is None else dv)]
        keys, values = (torch.empty(size, dtype=dtype, device=device) for size in sizes)
        return cls(keys, values)

    def extended(self, k: Tensor, v: Tensor) -> GrowingCache:
        """Returns a cache with n more positions, [B, Hkv, n, …]."""
        return GrowingCache(torch.cat((self.k, k), 2), torch.cat((self.v, v), 2))


Cache = TypeVar("Cache", StaticCache, GrowingCache)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    cache: Cache,
    scale: float | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, Cache]:
    """Softmax attention of N new positions to all M positions so far → out, new cache.

    Usually N = 1; a prompt or a draft has more, and each position sees the positions up to itself.
    A step takes O(B·H·N·M) memory; a growing cache adds O(B·Hkv·M·(d + dv)), its own size again.
    There is no backward pass.

    Args:
        q: [B, H, N, d].
        k: [B, Hkv, N, d], added to the cache; Hkv divides H, and query head h sees the key head
            ``h // (H // Hkv)``.
        v: [B, Hkv, N, dv].
        cache: The M - N positions before, with the sizes, dtype and device of k and v.
        scale: The factor of the scores, ``d ** -0.5`` by default.
        mask: Broadcastable to [B, H, N, M]: bool, True for a visible key, or of q's dtype, added
            to the scores. A query that sees no key gets zeros.

    Returns:
        out [B, H, N, dv], and the cache of M positions.

    Raises:
        ValueError: the inputs, the mask or the cache do not fit together, the cache is full, or
            a gradient is required.

    O(M) memory, O(M·d) if the cache grows, O(M·d) time: Shazeer, 2019 (arXiv 1911.02150), Fast
    Transformer Decoding: One Write-Head is All You Need, section 2.4.
    """
    _check(q, k, v, cache, mask)
    (B, H, N, d), (Hkv, dv) = q.shape, (k.shape[1], v.shape[3])
    cache = cache.extended(k, v)
    M = cache.k.shape[2]
    # The query heads of a group are rows of one product, so keys and values are not repeated.
    rows = q.reshape(B * Hkv, H // Hkv * N, d)
    scores = q.new_empty(B * Hkv, H // Hkv * N, M)  # [B·Hkv, H/Hkv·N, M]
    scale = d**-0.5 if scale is None else scale
    scores.baddbmm_(rows, cache.k.flatten(0, 1).mT, beta=0, alpha=scale)
    weights = _softmax(_hidden(scores.view(B, H, N, M), mask), mask)
    del scores
    out = torch.bmm(weights.view(B * Hkv, H // Hkv * N, M), cache.v.flatten(0, 1))
    return out.view(B, H, N, dv), cache


def _hidden(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Returns the scores [B, H, N, M], masked in place: -inf where a key is hidden."""
    N, M = scores.shape[2:]
    if N > 1:
        future = torch.ones(N, M, dtype=torch.bool, device=scores.device)  # [N, M]
        scores.masked_fill_(future.triu_(M - N + 1), -torch.inf)
        del future  # before the mask is inverted
    if mask is None:
        return scores
    if mask.dtype == torch.bool:
        return scores.masked_fill_(mask.logical_not(), -torch.inf)  # the mask's own shape
    return scores.add_(mask)


def _softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Returns the weights [B, H, N, M], zeros for a query that sees no keys."""
    weights = scores.softmax(-1)  # [B, H, N, M]
    if mask is not None:
        blind = scores.amax(-1, keepdim=True).isneginf()  # [B, H, N, 1], twice
        weights.masked_fill_(blind, 0)  # softmax of no keys at all is 0/0
    return weights


def _check(q: Tensor, k: Tensor, v: Tensor, cache: Cache, mask: Tensor | None) -> None:
    if q.dim() != 4 or q.shape[2] < 1 or q.shape[3] < 1:
        raise ValueError(
            f"q must have shape [B, H, N, d] with N >= 1 and d >= 1, got {list(q.shape)}"
        )
    B, H, N, d = q.shape
    if k.dim() != 4 or k.shape != (B, k.shape[1], N, d) or not k.shape[1] or H % k.shape[1]:
        raise ValueError(
            f"k must have shape [B, Hkv, N, d] = [{B}, Hkv, {N}, {d}] with Hkv a divisor of"
            f" H = {H}, got {list(k.shape)}"
        )
    Hkv = k.shape[1]
    if v.dim() != 4 or v.shape[:3] != (B, Hkv, N):
        raise ValueError(
            f"v must have shape [B, Hkv, N, dv] = [{B}, {Hkv}, {N}, dv], got {list(v.shape)}"
        )
    for name, new, old in (("k", k, cache.k), ("v", v, cache.v)):
        if old.shape != (B, Hkv, old.shape[2], new.shape[3]):
            raise ValueError(
                f"cache.{name} must have shape [B, Hkv, M, {'d' if name == 'k' else 'dv'}] ="
                f" [{B}, {Hkv}, M, {new.shape[3]}], got {list(old.shape)}"
            )
        if (old.dtype, old.device) != (new.dtype, new.device):
            raise ValueError(
                f"cache.{name} must be of {name}'s dtype and device, {new.dtype} on {new.device},"
                f" got {old.dtype} on {old.device}"
            )
    M = cache.k.shape[2] + N
    every_key, every_value = (x[:, :1, :1].expand(B, H, M, -1) for x in (k, v))  # views
    check_inputs(q, every_key, every_value, mask)
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        raise ValueError("decode has no backward pass: call it under torch.no_grad()")


_SCORES = "B*H*N*M*itemsize"
_MASKED = "min(1, mask)"


def _step(cache: dict[str, str]) -> tuple[Phase, ...]:
    """The phases of a step, given what is made for the cache of M positions."""
    both = {**cache, "scores": _SCORES, "weights": _SCORES}
    return (
        Phase("causal", {**cache, "scores": _SCORES, "future": "min(1, N - 1)*N*M"}),
        Phase("mask", {**cache, "scores": _SCORES, "hidden": "mask"}),
        Phase(
            "blind queries",
            {
                **both,
                "largest scores": f"{_MASKED}*B*H*N*itemsize",
                "blind": f"{_MASKED}*B*H*N",
            },
        ),
        Phase("out", {**cache, "weights": _SCORES, "out": "B*H*N*dv*itemsize"}),
    )


#: One step's peak with a cache of either kind; M counts the positions after it.
STATIC = MemoryModel("decode static", _step({}), {"N": 1, "mask": 0})
GROWING = MemoryModel(
    "decode growing",
    _step({"cache.k": "B*Hkv*M*d*itemsize", "cache.v": "B*Hkv*M*dv*itemsize"}),
    {"N": 1, "mask": 0},
)

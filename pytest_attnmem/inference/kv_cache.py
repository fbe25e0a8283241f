"""The KV cache: the vectors that every token stores in every layer for later tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ..errors import BudgetError
from .numbers import Given


@dataclass(frozen=True, slots=True)
class KVCache:
    """The layout of a cache: each token has ``vectors`` of ``width`` elements in each layer."""

    num_layers: int
    vectors: int
    """A key and a value for each key/value head; 1 for a latent that all heads share."""
    width: int
    dtype_bytes: Fraction
    """Bytes of one element."""
    group_size: int | None
    """Elements of a vector that share a scale; None without scales."""
    group_bytes: Fraction
    """Bytes of the scale of one group, and of its zero point if it has one."""

    @property
    def token_bytes(self) -> Fraction:
        """Returns the bytes of one token in all layers."""
        groups = -(-self.width // self.group_size) if self.group_size else 0
        vector = self.width * self.dtype_bytes + groups * self.group_bytes
        return self.num_layers * self.vectors * vector

    def bytes_for(self, batch_size: int, seq_len: int) -> int:
        """Returns the bytes of ``batch_size`` sequences of ``seq_len`` tokens, rounded up."""
        return math.ceil(batch_size * seq_len * self.token_bytes)


def kv_cache(given: Given, dtype_bytes: Fraction) -> KVCache:
    """Returns the cache of a model, with elements of ``dtype_bytes``.

    ``given`` has num_layers, d_model, num_heads, num_kv_heads, head_dim, latent_dim, rope_dim,
    kv_group_size and kv_group_bytes, as ``pytest_attnmem.roofline`` describes them.

    Raises:
        BudgetError: a number is not valid, or two do not go together.
    """
    layers, model_width = given.whole("num_layers"), given.whole("d_model")
    group = given.whole("kv_group_size") if "kv_group_size" in given else None
    layout = (dtype_bytes, group, given.exact("kv_group_bytes", 2))
    if "latent_dim" in given:
        if "num_kv_heads" in given:
            both = f"{given.label('num_kv_heads')} and {given.label('latent_dim')}"
            raise BudgetError(f"{both}: all heads share the latent; give one of the two")
        rope = given.whole("rope_dim") if "rope_dim" in given else 0
        return KVCache(layers, 1, given.whole("latent_dim") + rope, *layout)
    if "rope_dim" in given:
        latent = given.label("latent_dim")
        raise BudgetError(f"{given.label('rope_dim')}: only a latent has it; give {latent} too")
    if "num_heads" not in given:
        known = [name for name in ("num_kv_heads", "head_dim") if name in given]
        if not known:
            return KVCache(layers, 2, model_width, *layout)
        if len(known) == 1:
            raise BudgetError(
                f"{given.label(known[0])}: it does not determine the width of the cache alone; give"
                f" {given.label('num_heads')} too"
            )
    return KVCache(layers, 2 * key_value_heads(given), width_of_head(given), *layout)


def key_value_heads(given: Given) -> int:
    """Returns ``num_kv_heads``, which is ``num_heads`` by default.

    Raises:
        BudgetError: query heads cannot share them evenly.
    """
    if "num_kv_heads" not in given:
        return given.whole("num_heads")
    own = given.whole("num_kv_heads")
    if "num_heads" in given and given.whole("num_heads") % own:
        heads = f"{given.label('num_heads')} {given.whole('num_heads')}"
        raise BudgetError(
            f"{given.label('num_kv_heads')}: expected a divisor of {heads}, got {own}"
        )
    return own


def width_of_head(given: Given) -> int:
    """Returns ``head_dim``, which is ``d_model / num_heads`` by default.

    Raises:
        BudgetError: the heads do not share the model's width evenly.
    """
    if "head_dim" in given:
        return given.whole("head_dim")
    width, heads = given.whole("d_model"), given.whole("num_heads")
    if width % heads:
        raise BudgetError(
            f"{given.label('num_heads')}: expected a divisor of {given.label('d_model')} {width},"
            f" got {heads}; or give {given.label('head_dim')}"
        )
    return width // heads

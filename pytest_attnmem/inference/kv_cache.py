"""The KV cache: what every token leaves in every layer, for later tokens to attend to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ..errors import BudgetError
from .numbers import positive, whole


@dataclass(frozen=True, slots=True)
class KVCache:
    """Its layout: of each token, ``vectors`` of ``width`` elements in each layer."""

    num_layers: int
    vectors: int
    """A key and a value for each head that has its own; one latent where heads share it."""
    width: int
    dtype_bytes: Fraction
    """Of one element."""
    group_size: int | None
    """Elements of a vector that share a scale; None where nothing has one."""
    group_bytes: Fraction
    """Of the scale of one group, and of its zero point if it has one."""

    @property
    def token_bytes(self) -> Fraction:
        """Of one token, in all layers."""
        groups = math.ceil(Fraction(self.width, self.group_size)) if self.group_size else 0
        vector = self.width * self.dtype_bytes + groups * self.group_bytes
        return self.num_layers * self.vectors * vector

    def nbytes(self, batch_size: int, seq_len: int) -> int:
        """Of so many sequences of that length; a part of a byte takes a whole one."""
        return math.ceil(batch_size * seq_len * self.token_bytes)


def kv_cache(
    num_layers: object,
    d_model: object,
    dtype_bytes: object = 2,
    *,
    num_heads: object = None,
    num_kv_heads: object = None,
    head_dim: object = None,
    latent_dim: object = None,
    rope_dim: object = None,
    group_size: object = None,
    group_bytes: object = 2,
) -> KVCache:
    """The cache of a model: see :func:`pytest_attnmem.roofline.calculate_kv_cache_memory`.

    Raises:
        BudgetError: a number is none, or they do not go together.
    """
    layers, model_width = whole("num_layers", num_layers), whole("d_model", d_model)
    group = None if group_size is None else whole("group_size", group_size)
    layout = (positive("dtype_bytes", dtype_bytes), group, positive("group_bytes", group_bytes))
    if latent_dim is not None:
        if num_kv_heads is not None:
            raise BudgetError("num_kv_heads and latent_dim: heads share a latent; give one of them")
        rope = 0 if rope_dim is None else whole("rope_dim", rope_dim)
        return KVCache(layers, 1, whole("latent_dim", latent_dim) + rope, *layout)
    if rope_dim is not None:
        raise BudgetError("rope_dim: it is cached beside a latent; give latent_dim too")
    if num_heads is None and num_kv_heads is None and head_dim is None:
        return KVCache(layers, 2, model_width, *layout)
    if num_heads is None and (num_kv_heads is None or head_dim is None):
        given = "head_dim" if num_kv_heads is None else "num_kv_heads"
        raise BudgetError(f"{given}: it does not tell a cache's width alone; give num_heads too")
    heads = key_value_heads(num_heads, num_kv_heads)
    return KVCache(layers, 2 * heads, width_of_head(model_width, num_heads, head_dim), *layout)


def key_value_heads(num_heads: object, num_kv_heads: object) -> int:
    """How many heads have keys and values of their own: all, unless it is told.

    Raises:
        BudgetError: query heads cannot share them evenly.
    """
    if num_kv_heads is None:
        return whole("num_heads", num_heads)
    own = whole("num_kv_heads", num_kv_heads)
    if num_heads is not None and whole("num_heads", num_heads) % own:
        raise BudgetError(f"num_kv_heads: expected a divisor of num_heads {num_heads}, got {own}")
    return own


def width_of_head(d_model: object, num_heads: object, head_dim: object = None) -> int:
    """Elements of a key of one head: ``d_model / num_heads``, unless it is told.

    Raises:
        BudgetError: the heads do not share the model's width evenly.
    """
    if head_dim is not None:
        return whole("head_dim", head_dim)
    width, heads = whole("d_model", d_model), whole("num_heads", num_heads)
    if width % heads:
        raise BudgetError(
            f"num_heads: expected a divisor of d_model {width}, got {heads}; or give head_dim"
        )
    return width // heads

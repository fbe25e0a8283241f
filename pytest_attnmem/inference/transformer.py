"""A transformer as its sizes, from which follows what weights and cache it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..errors import BudgetError
from .costs import calculate_model_memory
from .kv_cache import KVCache, key_value_heads, kv_cache, width_of_head
from .numbers import positive, whole


@dataclass(frozen=True, slots=True)
class Model:
    """A dense transformer: every token goes through all of its weights."""

    num_params: int
    num_layers: int
    d_model: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    latent_dim: int
    """Of multi-head latent attention; 0 where keys and values are cached themselves."""
    rope_dim: int
    dtype_bytes: Fraction
    activation_bytes: Fraction
    cache: KVCache

    @property
    def memory_bytes(self) -> int:
        """Of the weights."""
        return calculate_model_memory(self.num_params, self.dtype_bytes)

    @property
    def projected(self) -> int:
        """What QKV projections give for a token, in one layer: queries, keys and values."""
        own = self.num_heads if self.latent_dim else self.num_kv_heads
        queries = self.num_heads * (self.head_dim + self.rope_dim)
        return queries + 2 * own * self.head_dim

    @property
    def qkv_params(self) -> int:
        """Of all layers; with a latent, of the way down to it and up from it."""
        if not self.latent_dim:
            return self.num_layers * self.d_model * self.projected
        queries = self.d_model * self.num_heads * (self.head_dim + self.rope_dim)
        down = self.d_model * (self.latent_dim + self.rope_dim)
        up = self.latent_dim * 2 * self.num_heads * self.head_dim
        return self.num_layers * (queries + down + up)

    @property
    def output_params(self) -> int:
        """Of the projection after attention, in all layers."""
        return self.num_layers * self.num_heads * self.head_dim * self.d_model


def model_of(given: Mapping[str, Any]) -> Model:
    """The model that a configuration describes: see ``analyze_inference_bottleneck``.

    Raises:
        BudgetError: a value cannot be, or there are fewer parameters than attention alone has.
    """
    dtype_bytes = positive("dtype_bytes", given.get("dtype_bytes", 2))
    activation_bytes = positive(
        "activation_bytes", given.get("activation_bytes", max(dtype_bytes, Fraction(2)))
    )
    layers, width, heads = (given[name] for name in ("num_layers", "d_model", "num_heads"))
    kv_heads, head_dim, latent_dim = (
        given.get(name) for name in ("num_kv_heads", "head_dim", "latent_dim")
    )
    cache = kv_cache(
        layers,
        width,
        positive("kv_dtype_bytes", given.get("kv_dtype_bytes", activation_bytes)),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        latent_dim=latent_dim,
        rope_dim=given.get("rope_dim"),
        group_size=given.get("kv_group_size"),
        group_bytes=given.get("kv_group_bytes", 2),
    )
    latent = 0 if latent_dim is None else whole("latent_dim", latent_dim)
    model = Model(
        whole("num_params", given["num_params"]),
        cache.num_layers,
        whole("d_model", width),
        whole("num_heads", heads),
        key_value_heads(heads, kv_heads),
        width_of_head(width, heads, head_dim),
        latent,
        cache.width - latent if latent else 0,
        dtype_bytes,
        activation_bytes,
        cache,
    )
    attention = model.qkv_params + model.output_params
    if model.num_params <= attention:
        raise BudgetError(
            f"num_params: expected more than the {attention:,} that the projections of attention"
            f" have in {model.num_layers} layers, got {model.num_params:,}"
        )
    return model

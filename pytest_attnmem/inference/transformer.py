"""A transformer's sizes, and the weights and the cache that follow from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ..errors import BudgetError
from .kv_cache import KVCache, key_value_heads, kv_cache, width_of_head
from .numbers import Given


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
    """The latent of multi-head latent attention; 0 in a model that caches keys and values."""
    rope_dim: int
    dtype_bytes: Fraction
    activation_bytes: Fraction
    cache: KVCache

    @property
    def memory_bytes(self) -> int:
        """Returns the bytes of the weights."""
        return math.ceil(self.num_params * self.dtype_bytes)

    @property
    def projected(self) -> int:
        """Returns the elements of a token's queries, keys and values in one layer."""
        own = self.num_heads if self.latent_dim else self.num_kv_heads
        queries = self.num_heads * (self.head_dim + self.rope_dim)
        return queries + 2 * own * self.head_dim

    @property
    def qkv_params(self) -> int:
        """Returns the parameters of all QKV projections; down to a latent and up from it too."""
        if not self.latent_dim:
            return self.num_layers * self.d_model * self.projected
        queries = self.d_model * self.num_heads * (self.head_dim + self.rope_dim)
        down = self.d_model * (self.latent_dim + self.rope_dim)
        up = self.latent_dim * 2 * self.num_heads * self.head_dim
        return self.num_layers * (queries + down + up)

    @property
    def output_params(self) -> int:
        """Returns the parameters of the projections after attention, in all layers."""
        return self.num_layers * self.num_heads * self.head_dim * self.d_model


def model_of(given: Given) -> Model:
    """Returns the model of a configuration: see ``analyze_inference_bottleneck``.

    Raises:
        BudgetError: a number is not valid, or ``num_params`` is too small for the projections.
    """
    dtype_bytes = given.exact("dtype_bytes", 2)
    activation_bytes = given.exact("activation_bytes", max(dtype_bytes, Fraction(2)))
    cache = kv_cache(given, given.exact("kv_dtype_bytes", activation_bytes))
    latent = given.whole("latent_dim") if "latent_dim" in given else 0
    model = Model(
        given.whole("num_params"),
        cache.num_layers,
        given.whole("d_model"),
        given.whole("num_heads"),
        key_value_heads(given),
        width_of_head(given),
        latent,
        cache.width - latent if latent else 0,
        dtype_bytes,
        activation_bytes,
        cache,
    )
    attention = model.qkv_params + model.output_params
    if model.num_params <= attention:
        raise BudgetError(
            f"{given.label('num_params')}: expected more than the {attention:,} parameters that the"
            f" projections of attention have in {model.num_layers} layers, got"
            f" {model.num_params:,}"
        )
    return model

"""The roofline model of inference: memory, FLOPs, arithmetic intensity, and what limits a device.

Multiply and add count as two. Bytes are whole; a part of one takes a whole one. Numbers may be
given as ``7e9`` or ``0.5``, and are taken exactly. The model is that of Williams, Waterman and
Patterson, "Roofline: An Insightful Visual Performance Model" (2009).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .inference.costs import SOFTMAX_FLOPS
from .inference.costs import calculate_model_memory as calculate_model_memory
from .inference.kv_cache import kv_cache, width_of_head
from .inference.numbers import Number, positive, whole


def calculate_max_tokens_per_second(
    model_memory_bytes: Number, bandwidth_bytes_per_sec: Number
) -> float:
    """Tokens a second of one sequence, when every token reads all weights once and nothing else.

    That is what memory allows one sequence at most: its KV cache is read too, while the sequences
    of a batch share a reading of the weights.

    Raises:
        BudgetError: a number is none, not positive or not finite.
    """
    memory = positive("model_memory_bytes", model_memory_bytes)
    return float(positive("bandwidth_bytes_per_sec", bandwidth_bytes_per_sec) / memory)


def calculate_arithmetic_intensity(flops: Number, bytes_loaded: Number) -> float:
    """FLOPs for each byte that an operation moves between the device and its memory.

    Raises:
        BudgetError: a number is none, not positive or not finite.
    """
    return float(positive("flops", flops) / positive("bytes_loaded", bytes_loaded))


def is_memory_bound(
    arithmetic_intensity: Number, compute_flops: Number, bandwidth_bytes_per_sec: Number
) -> bool:
    """Whether an operation is left of the ridge point, ``compute_flops / bandwidth``; at it, not.

    Raises:
        BudgetError: a number is none, not positive or not finite.
    """
    intensity = positive("arithmetic_intensity", arithmetic_intensity)
    compute = positive("compute_flops", compute_flops)
    return intensity * positive("bandwidth_bytes_per_sec", bandwidth_bytes_per_sec) < compute


def calculate_kv_cache_memory(
    batch_size: Number,
    seq_len: Number,
    num_layers: Number,
    d_model: Number,
    dtype_bytes: Number = 2,
    *,
    num_heads: Number | None = None,
    num_kv_heads: Number | None = None,
    head_dim: Number | None = None,
    latent_dim: Number | None = None,
    rope_dim: Number | None = None,
    group_size: Number | None = None,
    group_bytes: Number = 2,
) -> int:
    """Bytes of a KV cache: batch × seq_len × num_layers × 2 × d_model × dtype_bytes.

    Grouped queries: ``num_kv_heads``, with ``num_heads`` or ``head_dim``, give
    2 × num_kv_heads × head_dim in place of 2 × d_model; a head is d_model / num_heads wide unless
    ``head_dim`` says so. Multi-head latent attention (DeepSeek-V2): ``latent_dim`` + ``rope_dim``,
    once for all heads. A quantised cache: ``dtype_bytes`` of 1 or 0.5, and ``group_bytes`` for
    every ``group_size`` elements of a key, value or latent: 2 for a scale in fp16, 4 with a zero
    point; the last group of a vector may be short.

    Raises:
        BudgetError: a number is none, not positive or not whole, or they do not go together.
    """
    cache = kv_cache(
        num_layers,
        d_model,
        dtype_bytes,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        latent_dim=latent_dim,
        rope_dim=rope_dim,
        group_size=group_size,
        group_bytes=group_bytes,
    )
    return cache.nbytes(whole("batch_size", batch_size), whole("seq_len", seq_len))


def calculate_attention_flops(
    batch_size: Number,
    seq_len_q: Number,
    seq_len_k: Number,
    d_model: Number,
    num_heads: Number,
    *,
    head_dim: Number | None = None,
) -> int:
    """FLOPs of attention in one layer: q·kᵀ, softmax and ·v for every pair of query and key.

    batch × heads × seq_q × seq_k × (2·head_dim + 5 + 2·head_dim). A causal kernel that skips what
    it masks does about half of it.

    Raises:
        BudgetError: a number is none, or ``num_heads`` do not divide ``d_model``.
    """
    width = width_of_head(d_model, num_heads, head_dim)
    queries, keys = whole("seq_len_q", seq_len_q), whole("seq_len_k", seq_len_k)
    pairs = whole("batch_size", batch_size) * whole("num_heads", num_heads) * queries * keys
    return pairs * (4 * width + SOFTMAX_FLOPS)


def analyze_inference_bottleneck(
    model_config: Mapping[str, Any], gpu_config: Mapping[str, Any]
) -> dict[str, Any]:
    """What limits the generation of one token for each sequence of a batch.

    ``model_config``: num_params, num_layers, d_model, num_heads, dtype_bytes (2); and, if they are
    not the usual, batch_size (1), seq_len (2048), num_kv_heads, head_dim, latent_dim, rope_dim,
    kv_dtype_bytes (that of activations), kv_group_size, kv_group_bytes (2), activation_bytes
    (dtype_bytes, and at least 2). ``gpu_config``: bandwidth_bytes_per_sec, compute_flops and, to
    see what fits, memory_bytes. Either may have a ``name``.

    Of the dict that is returned, in bytes, FLOPs per byte and tokens a second:

    - ``model_memory``, ``kv_cache_memory``, and whether both ``fits`` (None without memory_bytes);
    - ``max_tokens_per_sec`` of one sequence that reads the weights alone, and ``tokens_per_sec`` of
      the whole batch that reads its cache too, each operation as fast as the roof lets it be;
    - ``arithmetic_intensity`` of the whole step, ``ridge_point``, and ``is_memory_bound``;
    - ``utilization``: the share of ``compute_flops`` that the step can use at its intensity,
      min(1, arithmetic_intensity / ridge_point);
    - ``compute_bound_batch_size``: from which on the step is no longer memory-bound, or None if
      that never comes, because the reading of caches grows with the batch.

    Raises:
        BudgetError: a key is missing or unknown, or a value cannot be.
    """
    from .inference.analysis import analysis_of

    found = analysis_of(model_config, gpu_config)
    step = found.decode.whole
    return {
        "model_memory": found.model.memory_bytes,
        "max_tokens_per_sec": float(found.weights_tokens_per_sec),
        "kv_cache_memory": found.kv_cache_bytes,
        "is_memory_bound": found.roof.is_memory_bound(step.intensity),
        "utilization": float(found.utilization(found.decode)),
        "arithmetic_intensity": float(step.intensity),
        "ridge_point": float(found.roof.ridge),
        "tokens_per_sec": float(found.tokens_per_sec),
        "compute_bound_batch_size": found.compute_bound_batch(found.decode.operations),
        "fits": found.fits,
    }

"""The roofline model of inference: memory, FLOPs, arithmetic intensity, and the limit of a device.

A multiply-add counts as two FLOPs. Bytes are exact and rounded up to whole ones; rates are floats.
Numbers may be written as ``7e9`` or ``0.5``. The model is that of Williams, Waterman and Patterson,
"Roofline: An Insightful Visual Performance Model" (2009).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .inference.analysis import SOFTMAX_FLOPS, analysis_of
from .inference.kv_cache import kv_cache, width_of_head
from .inference.numbers import Given, Number, exact, positive, whole


def calculate_model_memory(num_params: Number, dtype_bytes: Number = 2) -> int:
    """Returns the bytes of a model's weights; ``dtype_bytes`` is 2 in fp16, 0.5 in int4.

    Raises:
        BudgetError: a number is not a positive number.
    """
    return math.ceil(whole("num_params", num_params) * exact("dtype_bytes", dtype_bytes))


def calculate_max_tokens_per_second(
    model_memory_bytes: Number, bandwidth_bytes_per_sec: Number
) -> float:
    """Returns the tokens per second of one sequence if each token reads all weights once.

    This is an upper bound: a token reads the KV cache too. The sequences of a batch read the
    weights together.

    Raises:
        BudgetError: a number is not a positive number.
    """
    memory = positive("model_memory_bytes", model_memory_bytes)
    return positive("bandwidth_bytes_per_sec", bandwidth_bytes_per_sec) / memory


def calculate_arithmetic_intensity(flops: Number, bytes_loaded: Number) -> float:
    """Returns the FLOPs for each byte that an operation moves between the device and its memory.

    Raises:
        BudgetError: a number is not a positive number.
    """
    return positive("flops", flops) / positive("bytes_loaded", bytes_loaded)


def is_memory_bound(
    arithmetic_intensity: Number, compute_flops: Number, bandwidth_bytes_per_sec: Number
) -> bool:
    """Returns True if the intensity is below the ridge point, ``compute_flops / bandwidth``.

    Raises:
        BudgetError: a number is not a positive number.
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
    """Returns the bytes of a KV cache: batch × seq_len × num_layers × 2 × d_model × dtype_bytes.

    Grouped queries: ``num_kv_heads``, with ``num_heads`` or ``head_dim``, give
    2 × num_kv_heads × head_dim in place of 2 × d_model; ``head_dim`` is d_model / num_heads by
    default. Multi-head latent attention (DeepSeek-V2): ``latent_dim`` + ``rope_dim``, once for all
    heads. A quantised cache: ``dtype_bytes`` of 1 or 0.5, and ``group_bytes`` for every
    ``group_size`` elements of a key, value or latent: 2 for a scale in fp16, 4 with a zero point;
    the last group of a vector may be short.

    Raises:
        BudgetError: a number is not positive or not whole, or two do not go together.
    """
    sizes = {
        "num_layers": num_layers,
        "d_model": d_model,
        "num_heads": num_heads,
        "num_kv_heads": num_kv_heads,
        "head_dim": head_dim,
        "latent_dim": latent_dim,
        "rope_dim": rope_dim,
        "kv_group_size": group_size,
        "kv_group_bytes": group_bytes,
    }
    labels = {"kv_group_size": "group_size", "kv_group_bytes": "group_bytes"}
    cache = kv_cache(Given(sizes, labels), exact("dtype_bytes", dtype_bytes))
    return cache.bytes_for(whole("batch_size", batch_size), whole("seq_len", seq_len))


def calculate_attention_flops(
    batch_size: Number,
    seq_len_q: Number,
    seq_len_k: Number,
    d_model: Number,
    num_heads: Number,
    *,
    head_dim: Number | None = None,
) -> int:
    """Returns the FLOPs of attention in one layer: q·kᵀ, softmax and ·v for all pairs.

    batch × heads × seq_q × seq_k × (2·head_dim + 5 + 2·head_dim). A causal kernel that skips masked
    pairs does about half of them.

    Raises:
        BudgetError: a number is not a whole number, or ``num_heads`` does not divide ``d_model``.
    """
    given = Given({"d_model": d_model, "num_heads": num_heads, "head_dim": head_dim})
    width = width_of_head(given)
    queries, keys = whole("seq_len_q", seq_len_q), whole("seq_len_k", seq_len_k)
    pairs = whole("batch_size", batch_size) * whole("num_heads", num_heads) * queries * keys
    return pairs * (4 * width + SOFTMAX_FLOPS)


def analyze_inference_bottleneck(
    model_config: Mapping[str, Any], gpu_config: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the limits of generating one token for each sequence of a batch.

    ``model_config``: num_params, num_layers, d_model, num_heads, dtype_bytes (2); optionally
    batch_size (1), seq_len (2048), num_kv_heads, head_dim, latent_dim, rope_dim, kv_dtype_bytes
    (that of activations), kv_group_size, kv_group_bytes (2), activation_bytes (dtype_bytes, and at
    least 2). ``gpu_config``: bandwidth_bytes_per_sec, compute_flops and optionally memory_bytes.
    Either may have a ``name``.

    The dict has, in bytes, FLOPs per byte and tokens per second:

    - ``model_memory``, ``kv_cache_memory`` and ``fits``, which is None without memory_bytes;
    - ``max_tokens_per_sec`` of one sequence that only reads the weights, and ``tokens_per_sec`` of
      the whole batch, which reads its cache too, each operation as fast as the roof;
    - ``arithmetic_intensity`` of the whole step, ``ridge_point``, and ``is_memory_bound``;
    - ``utilization``: the share of ``compute_flops`` that the step can use at its intensity,
      min(1, arithmetic_intensity / ridge_point);
    - ``compute_bound_batch_size``: the batch from which on the step is not memory-bound; None if it
      always is, because the cache grows with the batch.

    Raises:
        BudgetError: a key is missing or unknown, or a value is not valid.
    """
    found = analysis_of(model_config, gpu_config)
    step = found.decode.whole
    return {
        "model_memory": found.model.memory_bytes,
        "max_tokens_per_sec": found.weights_tokens_per_sec,
        "kv_cache_memory": found.kv_cache_bytes,
        "is_memory_bound": found.roof.is_memory_bound(step.intensity),
        "utilization": found.utilization(found.decode),
        "arithmetic_intensity": step.intensity,
        "ridge_point": found.roof.ridge,
        "tokens_per_sec": found.tokens_per_sec,
        "compute_bound_batch_size": found.compute_bound_batch(found.decode.operations),
        "fits": found.fits,
    }

"""The limits of a transformer's inference on a device, operation by operation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..errors import BudgetError
from ..suggestion import closest
from ..units import shown
from .numbers import Given, exact, positive
from .roof import Roofline
from .transformer import Model, model_of

#: FLOPs of a softmax for each score, about: maximum, difference, exponential, sum and quotient.
SOFTMAX_FLOPS: Final = 5


@dataclass(frozen=True, slots=True)
class Operation:
    """One kind of operation in all layers, with the least that it must compute and move.

    It reads its weights and its cache once, reads its input once and writes its output once.
    Scores and probabilities, which a fused kernel keeps on the chip, are not moved.
    """

    name: str
    flops: int
    weight_bytes: int
    """Bytes that do not depend on the batch."""
    sequence_bytes: int
    """Bytes of cache and activations, which grow with the batch."""

    @property
    def nbytes(self) -> int:
        """Returns the bytes that it moves."""
        return self.weight_bytes + self.sequence_bytes

    @property
    def intensity(self) -> float:
        """Returns its FLOPs per byte."""
        return self.flops / self.nbytes


@dataclass(frozen=True, slots=True)
class StepCost:
    """One pass through the model."""

    name: str
    tokens: int
    operations: tuple[Operation, ...]

    @property
    def whole(self) -> Operation:
        """Returns all operations as one."""
        return _sum("whole step", self.operations)


@dataclass(frozen=True, slots=True)
class Analysis:
    """A model on a device, with ``batch_size`` sequences of ``seq_len`` tokens each."""

    model: Model
    roof: Roofline
    batch_size: int
    seq_len: int

    @property
    def decode(self) -> StepCost:
        """Returns the step that makes one more token for each sequence."""
        return StepCost("decode", self.batch_size, _operations(self, self.batch_size, 1))

    @property
    def prefill(self) -> StepCost:
        """Returns the step that reads all tokens of all sequences at once."""
        tokens = self.batch_size * self.seq_len
        return StepCost("prefill", tokens, _operations(self, tokens, self.seq_len))

    @property
    def kv_cache_bytes(self) -> int:
        """Returns the bytes of the cache of all sequences."""
        return self.model.cache.bytes_for(self.batch_size, self.seq_len)

    @property
    def needed_bytes(self) -> int:
        """Returns the bytes of weights and cache; activations and workspaces come on top."""
        return self.model.memory_bytes + self.kv_cache_bytes

    @property
    def fits(self) -> bool | None:
        """Returns True if the device has that memory; None if its memory is not known."""
        memory = self.roof.memory_bytes
        return None if memory is None else self.needed_bytes <= memory

    @property
    def longest_seq_len(self) -> int | None:
        """Returns the most tokens that fit at this batch; 0 if not one does."""
        return self._room(self.batch_size)

    @property
    def largest_batch_size(self) -> int | None:
        """Returns the most sequences that fit at this length; 0 if not one does."""
        return self._room(self.seq_len)

    @property
    def weights_tokens_per_sec(self) -> float:
        """Returns the rate of one sequence if only the weights are read."""
        return self.roof.bandwidth_bytes_per_sec / self.model.memory_bytes

    @property
    def memory_tokens_per_sec(self) -> float:
        """Returns the rate of the batch if only the weights, once, and all caches are read."""
        return self.batch_size * self.roof.bandwidth_bytes_per_sec / self.needed_bytes

    @property
    def tokens_per_sec(self) -> float:
        """Returns the rate of the batch if operations run one by one, each as fast as the roof."""
        return self.batch_size / self.seconds(self.decode)

    def seconds(self, step: StepCost) -> float:
        """Returns the least time of a step."""
        return sum(self.roof.seconds(o.flops, o.nbytes) for o in step.operations)

    def utilization(self, step: StepCost) -> float:
        """Returns the share of peak FLOPs that a step can use at its intensity."""
        return self.roof.attainable(step.whole.intensity) / self.roof.compute_flops

    def compute_bound_batch(self, operations: Iterable[Operation]) -> int | None:
        """Returns the batch from which on these operations are not memory-bound; None for never.

        For b sequences of F FLOPs and S bytes each, and W bytes of weights, that is where
        b·F / (W + b·S) reaches the ridge point.
        """
        together = _sum("", operations)
        gained = together.flops - self.roof.ridge * together.sequence_bytes
        if gained <= 0:
            return None
        lacking = self.roof.ridge * together.weight_bytes
        return max(1, math.ceil(lacking * self.batch_size / gained))

    def _room(self, factor: int) -> int | None:
        if self.roof.memory_bytes is None:
            return None
        left = self.roof.memory_bytes - self.model.memory_bytes
        return max(0, math.floor(left / (factor * self.model.cache.token_bytes)))


def _sum(name: str, operations: Iterable[Operation]) -> Operation:
    every = tuple(operations)
    return Operation(
        name,
        sum(o.flops for o in every),
        sum(o.weight_bytes for o in every),
        sum(o.sequence_bytes for o in every),
    )


#: The operation that has no weights.
ATTENTION: Final = "attention over the cache"


def _operations(found: Analysis, tokens: int, queries: int) -> tuple[Operation, ...]:
    """Returns the operations of a pass of ``tokens``, which are ``queries`` of each sequence."""
    model = found.model

    def product(name: str, params: int, inputs: int, outputs: int) -> Operation:
        elements = tokens * model.num_layers * (inputs + outputs)
        weights, activations = params * model.dtype_bytes, elements * model.activation_bytes
        return Operation(name, 2 * params * tokens, math.ceil(weights), math.ceil(activations))

    attended = model.num_heads * model.head_dim
    rest = model.num_params - model.qkv_params - model.output_params
    return (
        product("QKV projections", model.qkv_params, model.d_model, model.projected),
        _attention(found, tokens, queries),
        product("output projection", model.output_params, attended, model.d_model),
        product("MLP and the rest", rest, model.d_model, model.d_model),
    )


def _attention(found: Analysis, tokens: int, queries: int) -> Operation:
    # A single query over a latent works in the latent's own space, where every head reads the same
    # vector. Many queries work on the keys and values of each head, which are made from the latent.
    model = found.model
    absorbed = bool(model.latent_dim) and queries == 1
    value = model.latent_dim if absorbed else model.head_dim
    key = value + model.rope_dim
    pairs = tokens * found.seq_len * model.num_layers * model.num_heads
    flops = pairs * (2 * key + SOFTMAX_FLOPS + 2 * value)
    elements = model.num_heads * (key + value)  # queries in, values out
    cached = found.kv_cache_bytes
    if model.latent_dim and not absorbed:
        elements += model.num_heads * (key + value)
        cached = 0
    activations = math.ceil(tokens * model.num_layers * elements * model.activation_bytes)
    return Operation(ATTENTION, flops, 0, cached + activations)


#: The required and the optional keys of a model and of a device.
_MODEL: Final = ("num_params", "num_layers", "d_model", "num_heads")
_MODEL_MAY: Final = (
    *("dtype_bytes", "batch_size", "seq_len", "num_kv_heads", "head_dim", "latent_dim", "rope_dim"),
    *("kv_dtype_bytes", "kv_group_size", "kv_group_bytes", "activation_bytes", "name"),
)
_GPU: Final = ("bandwidth_bytes_per_sec", "compute_flops")
_GPU_MAY: Final = ("memory_bytes", "name")


def analysis_of(model_config: Mapping[str, Any], gpu_config: Mapping[str, Any]) -> Analysis:
    """Returns the analysis of two configurations: see ``analyze_inference_bottleneck``.

    Raises:
        BudgetError: a key is missing or unknown, or a value is not valid.
    """
    given = Given(_checked("model_config", model_config, _MODEL, _MODEL_MAY))
    device = _checked("gpu_config", gpu_config, _GPU, _GPU_MAY)
    memory = device.get("memory_bytes")
    roof = Roofline(
        str(device.get("name", "the device")),
        None if memory is None else math.floor(exact("memory_bytes", memory)),
        positive("bandwidth_bytes_per_sec", device["bandwidth_bytes_per_sec"]),
        positive("compute_flops", device["compute_flops"]),
    )
    batch_size, seq_len = given.whole("batch_size", 1), given.whole("seq_len", 2048)
    return Analysis(model_of(given), roof, batch_size, seq_len)


def _checked(
    label: str, given: object, must: tuple[str, ...], may: tuple[str, ...]
) -> Mapping[str, Any]:
    """Returns the entries that are not None.

    Raises:
        BudgetError: a key is missing or unknown, or the configuration is not a dict.
    """
    if not isinstance(given, Mapping):
        raise BudgetError(f"{label}: expected a dict, got {shown(given)}")
    for key in given:
        if key not in (*must, *may):
            close = closest(str(key), (*must, *may))
            hint = f"did you mean {close!r}? " if close else ""
            known = ", ".join((*must, *may))
            raise BudgetError(f"{label}: unknown key {shown(key)}; {hint}expected {known}")
    if missing := [key for key in must if given.get(key) is None]:
        raise BudgetError(f"{label}: {', '.join(missing)} missing; it needs {', '.join(must)}")
    return {key: value for key, value in given.items() if value is not None}

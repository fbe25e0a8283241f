"""What limits a transformer's inference on a device, operation by operation."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from ..errors import BudgetError
from ..units import shown
from .costs import SOFTMAX_FLOPS
from .numbers import positive, whole
from .roof import Roofline
from .transformer import Model, model_of


@dataclass(frozen=True, slots=True)
class Operation:
    """One kind of operation, in all layers: the least that it must compute and move.

    Weights and cache are read once, its input once, and its output is written once; what a fused
    kernel keeps on the chip, scores and probabilities, is not moved.
    """

    name: str
    flops: int
    weight_bytes: Fraction
    """The same for any batch."""
    sequence_bytes: Fraction
    """Cache and activations, which grow with the batch."""

    @property
    def nbytes(self) -> Fraction:
        """All that it moves."""
        return self.weight_bytes + self.sequence_bytes

    @property
    def intensity(self) -> Fraction:
        """FLOPs per byte."""
        return self.flops / self.nbytes


@dataclass(frozen=True, slots=True)
class StepCost:
    """One pass through the model."""

    name: str
    tokens: int
    operations: tuple[Operation, ...]

    @property
    def whole(self) -> Operation:
        """All operations as one."""
        return _sum("whole step", self.operations)


@dataclass(frozen=True, slots=True)
class Analysis:
    """A model on a device, at a batch of sequences that are each so long."""

    model: Model
    roof: Roofline
    batch_size: int
    seq_len: int

    @property
    def decode(self) -> StepCost:
        """One more token for each sequence, which attends to ``seq_len``."""
        return StepCost(
            "decode", self.batch_size, _operations(self.model, self.batch_size, 1, self)
        )

    @property
    def prefill(self) -> StepCost:
        """All tokens of all sequences at once."""
        tokens = self.batch_size * self.seq_len
        return StepCost("prefill", tokens, _operations(self.model, tokens, self.seq_len, self))

    @property
    def kv_cache_bytes(self) -> int:
        """Of all sequences."""
        return self.model.cache.nbytes(self.batch_size, self.seq_len)

    @property
    def needed_bytes(self) -> int:
        """Weights and cache; activations and workspaces come on top."""
        return self.model.memory_bytes + self.kv_cache_bytes

    @property
    def fits(self) -> bool | None:
        """Whether the device has that memory; None where it is not known."""
        memory = self.roof.memory_bytes
        return None if memory is None else self.needed_bytes <= memory

    @property
    def longest_seq_len(self) -> int | None:
        """At this batch; 0 if not one token fits."""
        return self._room(self.batch_size)

    @property
    def largest_batch_size(self) -> int | None:
        """At this length; 0 if not one sequence fits."""
        return self._room(self.seq_len)

    @property
    def weights_tokens_per_sec(self) -> Fraction:
        """Of one sequence, if nothing but the weights is read."""
        return self.roof.bandwidth_bytes_per_sec / self.model.memory_bytes

    @property
    def memory_tokens_per_sec(self) -> Fraction:
        """Of the batch, if weights are read once for all and each cache for its sequence."""
        return self.batch_size * self.roof.bandwidth_bytes_per_sec / self.needed_bytes

    @property
    def tokens_per_sec(self) -> Fraction:
        """Of the batch, each operation after the other as fast as the roof lets it be."""
        return self.batch_size / self.seconds(self.decode)

    def seconds(self, step: StepCost) -> Fraction:
        """What a step takes at least."""
        return sum((self.roof.seconds(o.flops, o.nbytes) for o in step.operations), Fraction(0))

    def utilization(self, step: StepCost) -> Fraction:
        """The share of peak FLOPs that a step can use at its intensity."""
        return self.roof.attainable(step.whole.intensity) / self.roof.compute_flops

    def compute_bound_batch(self, operations: Iterable[Operation]) -> int | None:
        """The batch from which on operations of a step are not memory-bound; None if that is never.

        For b sequences of F FLOPs and S bytes each, and W bytes of weights, that is where
        b·F / (W + b·S) reaches the ridge point.
        """
        together = _sum("", operations)
        gained = Fraction(together.flops) - self.roof.ridge * together.sequence_bytes
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
        sum((o.weight_bytes for o in every), Fraction(0)),
        sum((o.sequence_bytes for o in every), Fraction(0)),
    )


#: The operation that has no weights.
ATTENTION: Final = "attention over the cache"


def _operations(model: Model, tokens: int, queries: int, found: Analysis) -> tuple[Operation, ...]:
    """Of a pass of so many tokens, so many of each sequence."""

    def product(name: str, params: int, given: int, made: int) -> Operation:
        activations = tokens * model.num_layers * (given + made) * model.activation_bytes
        return Operation(name, 2 * params * tokens, params * model.dtype_bytes, activations)

    attended = model.num_heads * model.head_dim
    rest = model.num_params - model.qkv_params - model.output_params
    return (
        product("QKV projections", model.qkv_params, model.d_model, model.projected),
        _attention(model, tokens, queries, found),
        product("output projection", model.output_params, attended, model.d_model),
        product("MLP and the rest", rest, model.d_model, model.d_model),
    )


def _attention(model: Model, tokens: int, queries: int, found: Analysis) -> Operation:
    # Over a latent, one query at a time works in the latent's own space, where every head reads
    # the same vector; many at once work on the keys and values of heads that are made from it.
    absorbed = bool(model.latent_dim) and queries == 1
    value = model.latent_dim if absorbed else model.head_dim
    key = value + model.rope_dim
    pairs = tokens * found.seq_len * model.num_layers * model.num_heads
    flops = pairs * (2 * key + SOFTMAX_FLOPS + 2 * value)
    moved = model.num_heads * (key + value)  # queries in, values out
    cached = found.batch_size * found.seq_len * model.cache.token_bytes
    if model.latent_dim and not absorbed:
        moved += model.num_heads * (key + value)
        cached = Fraction(0)
    activations = tokens * model.num_layers * moved * model.activation_bytes
    return Operation(ATTENTION, flops, Fraction(0), cached + activations)


#: What an analysis must be told of the model and of the device, and what it may be told.
_MODEL: Final = ("num_params", "num_layers", "d_model", "num_heads")
_MODEL_MAY: Final = (
    *("dtype_bytes", "batch_size", "seq_len", "num_kv_heads", "head_dim", "latent_dim", "rope_dim"),
    *("kv_dtype_bytes", "kv_group_size", "kv_group_bytes", "activation_bytes", "name"),
)
_GPU: Final = ("bandwidth_bytes_per_sec", "compute_flops")
_GPU_MAY: Final = ("memory_bytes", "name")


def analysis_of(model_config: Mapping[str, Any], gpu_config: Mapping[str, Any]) -> Analysis:
    """Read what :func:`pytest_attnmem.roofline.analyze_inference_bottleneck` takes.

    Raises:
        BudgetError: a key is missing or unknown, or a value cannot be.
    """
    given = _checked("model_config", model_config, _MODEL, _MODEL_MAY)
    device = _checked("gpu_config", gpu_config, _GPU, _GPU_MAY)
    memory = device.get("memory_bytes")
    roof = Roofline(
        str(device.get("name", "the device")),
        None if memory is None else math.floor(positive("memory_bytes", memory)),
        positive("bandwidth_bytes_per_sec", device["bandwidth_bytes_per_sec"]),
        positive("compute_flops", device["compute_flops"]),
    )
    batch_size = whole("batch_size", given.get("batch_size", 1))
    return Analysis(model_of(given), roof, batch_size, whole("seq_len", given.get("seq_len", 2048)))


def _checked(
    what: str, given: object, must: tuple[str, ...], may: tuple[str, ...]
) -> Mapping[str, Any]:
    """The configuration, all of whose keys are known."""
    if not isinstance(given, Mapping):
        raise BudgetError(f"{what}: expected a dict, got {shown(given)}")
    for key in given:
        if key not in (*must, *may):
            close = difflib.get_close_matches(str(key), (*must, *may), 1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            known = ", ".join((*must, *may))
            raise BudgetError(f"{what}: unknown key {shown(key)}; {hint}expected {known}")
    if missing := [key for key in must if given.get(key) is None]:
        raise BudgetError(f"{what}: {', '.join(missing)} missing; it needs {', '.join(must)}")
    return {key: value for key, value in given.items() if value is not None}

"""The edits that a person would try to a recipe which needs too much memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final

from .choices import FUSED
from .recipe import Recipe

#: The chunks of tokens in which the loss is tried.
CHUNKS: Final = 8


class Cost(IntEnum):
    """The cost of an edit, apart from operations that it recomputes; the cheapest first."""

    FREE = 0
    """Other kernels, and equal results but for rounding."""
    SMALLER = 1
    """Smaller batches, which use a device less well; recomputation has operations to count."""
    PRECISION = 2
    """Other results: a dtype of fewer digits."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change to a recipe."""

    kind: str
    """Edits of one kind exclude each other."""
    option: str
    """The option of ``attnmem model``."""
    code: str
    """The line that a person writes in the program."""
    cost: Cost
    changes: Mapping[str, Any] = field(hash=False)
    """The fields of the recipe that it sets."""

    def apply(self, recipe: Recipe) -> Recipe:
        """Returns the recipe with the edit."""
        return replace(recipe, **self.changes)


def edits_of(recipe: Recipe, attention: str) -> tuple[Edit, ...]:
    """Returns the edits that a recipe leaves room for, the cheapest first.

    ``attention`` is that of a model of transformers, or empty.
    """
    found = [*_attention(recipe, attention), *_precision(recipe)]
    if recipe.train:
        found += [*_optimizer(recipe), *_batches(recipe), *_recomputation(recipe)]
    return tuple(sorted(found, key=lambda edit: edit.cost))


def _attention(recipe: Recipe, attention: str) -> Iterator[Edit]:
    if recipe.sdpa == "math":
        code = "leave out sdpa_kernel(SDPBackend.MATH): PyTorch chooses"
        yield Edit("attention", "--sdpa ''", code, Cost.FREE, {"sdpa": ""})
    if attention == "eager":
        code = 'model.set_attn_implementation("sdpa")'
        yield Edit("attention", "--attention sdpa", code, Cost.FREE, {"attention": "sdpa"})


def _optimizer(recipe: Recipe) -> Iterator[Edit]:
    if recipe.keep_gradients:
        code = "optimizer.zero_grad(set_to_none=True)"
        yield Edit("clear", "no --keep-gradients", code, Cost.FREE, {"keep_gradients": False})
    name = recipe.train
    if not isinstance(name, str):
        return
    # A fused kernel needs no memory; a loop needs that of one parameter, foreach that of all.
    best = "fused" if name in FUSED else "for-loop"
    if recipe.implementation != best:
        code = "fused=True" if best == "fused" else "foreach=False"
        yield Edit(
            "optimizer",
            f"--implementation {best}",
            f"{code}, an argument of the optimizer",
            Cost.FREE,
            {"implementation": best},
        )


def _batches(recipe: Recipe) -> Iterator[Edit]:
    """Yields micro-batches of B/2, B/4 and so on, as many more a step."""
    batch, parts = recipe.sizes.get("B", 1), 2
    while batch % parts == 0:
        size, steps = batch // parts, recipe.accumulate * parts
        yield Edit(
            "batches",
            f"--B {size} --accumulate {steps}",
            f"micro-batches of {size}: optimizer.step() after {steps} backward passes, each of"
            f" loss / {steps}",
            Cost.SMALLER,
            {"sizes": {**recipe.sizes, "B": size}, "accumulate": steps},
        )
        parts *= 2


def _recomputation(recipe: Recipe) -> Iterator[Edit]:
    if not recipe.loss_chunks and recipe.loss is None:
        yield Edit(
            "loss",
            f"--loss-chunks {CHUNKS}",
            f"torch.utils.checkpoint of output layer and cross entropy, on {CHUNKS} chunks of"
            " tokens",
            Cost.SMALLER,
            {"loss_chunks": CHUNKS},
        )
    if not recipe.checkpoint:
        code = "model.gradient_checkpointing_enable(), or torch.utils.checkpoint of each layer"
        yield Edit("checkpoint", "--checkpoint", code, Cost.SMALLER, {"checkpoint": True})


def _precision(recipe: Recipe) -> Iterator[Edit]:
    if recipe.dtype != "float32":
        return
    if recipe.train and not recipe.autocast:
        code = 'with torch.autocast("cuda", torch.bfloat16): around the forward pass'
        changes = {"autocast": "bfloat16"}
        yield Edit("precision", "--autocast bf16", code, Cost.PRECISION, changes)
    changes = {"dtype": "bfloat16", "autocast": ""}
    code = "model.to(torch.bfloat16)" + (": weights, gradients and states" if recipe.train else "")
    yield Edit("precision", "--dtype bf16", code, Cost.PRECISION, changes)

"""The published formulas that stand beside whole models in docs/evidence/models.md.

Each function takes one entry of ``results/models.null.json``, with the model's name and the recipe,
and returns bytes. No formula knows
logits; accelerate's and DeepSpeed's know no activations either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final


def accelerate(found: dict[str, Any], name: str, recipe: str) -> int:
    """Returns accelerate's estimate: the weights, or the largest stage of training with Adam.

    The function is ``estimate_training_usage`` of accelerate/commands/estimate.py. In bfloat16 its
    largest stage is the optimizer's: two states of the size of the weights.
    """
    weights: int = found["sizes"]["itemsize"] * found["parameters"]
    return weights if recipe == "prefill" else 2 * weights


def deepspeed(found: dict[str, Any], name: str, recipe: str) -> int | None:
    """Returns DeepSpeed's estimate of model states on one device without offload, 20 B each.

    The function is ``estimate_zero2_model_states_mem_needs`` of
    deepspeed/runtime/zero/stage_1_and_2.py; it estimates training alone.
    """
    return None if recipe == "prefill" else 20 * int(found["parameters"])


def megatron(found: dict[str, Any], name: str, recipe: str) -> int | None:
    """Returns the states of this recipe, and activations by Korthikanti et al. 2022.

    The paper's table 2 has 34*s*b*h bytes a layer without the attention's scores, and 2*s*b*h if
    the layer is recomputed. Returns None for a model that is not one stack of layers over tokens,
    because the paper has no formula for ViT, for Whisper or for attention alone.
    """
    sizes = found["sizes"]
    if recipe == "prefill" or "vocab" not in sizes or name.startswith("whisper"):
        return None
    # Weights, gradients and AdamW's two states have the weights' dtype in this recipe.
    states = 4 * sizes["itemsize"] * int(found["parameters"])
    kept = 2 if recipe == "train + checkpoint" else 34
    return states + kept * int(sizes["layers"] * sizes["B"] * sizes["N"] * sizes["hidden"])


FORMULAS: Final[dict[str, Callable[[dict[str, Any], str, str], int | None]]] = {
    "accelerate": accelerate,
    "DeepSpeed": deepspeed,
    "Megatron's paper": megatron,
}

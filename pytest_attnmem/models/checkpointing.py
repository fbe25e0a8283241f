"""Activation checkpointing: layers that keep only their inputs, and compute the rest again."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..errors import BudgetError
from ..units import shown


def checkpoint_layers(model: Any) -> None:
    """Makes layers keep only their inputs: by the model's own switch, else each of a ModuleList.

    Raises:
        BudgetError: the model has neither.
    """
    import torch
    from torch.utils.checkpoint import checkpoint

    if hasattr(model, "gradient_checkpointing_enable"):
        model.gradient_checkpointing_enable({"use_reentrant": False})
        return
    layers = [
        layer
        for module in model.modules()
        if isinstance(module, torch.nn.ModuleList)
        for layer in module
    ]
    if not layers:
        raise BudgetError(
            f"{shown(type(model).__name__)} has no nn.ModuleList of layers to checkpoint; call"
            " torch.utils.checkpoint in the model itself"
        )
    for layer in layers:
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)

"""Activation checkpointing: layers that keep only their inputs, and compute the rest again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..errors import BudgetError
from ..units import shown

#: Returns the contexts of a checkpointed forward pass and of its recomputation, as
#: ``torch.utils.checkpoint.checkpoint`` takes them; None: its own.
Contexts = Callable[[], tuple[Any, Any]]


def checkpoint_layers(model: Any, contexts: Contexts | None = None) -> None:
    """Makes layers keep only their inputs: by the model's own switch, else each of a ModuleList.

    Raises:
        BudgetError: the model has neither.
    """
    import torch

    options = keywords(contexts)
    if hasattr(model, "gradient_checkpointing_enable"):
        model.gradient_checkpointing_enable(options)
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
        layer.forward = partial(recomputed, layer.forward, contexts)


def recomputed(
    function: Callable[..., Any], contexts: Contexts | None, *args: Any, **kwargs: Any
) -> Any:
    """Returns the function's result, of which only the arguments are kept for backward."""
    from torch.utils.checkpoint import checkpoint

    return checkpoint(function, *args, **keywords(contexts), **kwargs)


def keywords(contexts: Contexts | None) -> dict[str, Any]:
    """Returns the keywords of ``checkpoint``."""
    return {"use_reentrant": False} | ({} if contexts is None else {"context_fn": contexts})

"""The cross entropy of a language model, whose logits exist for one chunk of tokens at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..errors import BudgetError
from ..units import shown
from .checkpointing import Contexts, recomputed
from .labels import tensors_in


def chunked_loss(
    model: Any,
    inputs: tuple[tuple[Any, ...], Mapping[str, Any]],
    chunks: int,
    vocab: int,
    contexts: Contexts | None = None,
) -> Any:
    """Returns the model's loss, from logits that are made chunk by chunk and again in backward.

    The tokens are split into ``chunks``. The loss is that of transformers' ``ForCausalLMLoss``
    (loss/loss_utils.py: float32, each token against the next) where the model is given labels,
    else the cross entropy of logits and tokens.

    Raises:
        BudgetError: the model has no output layer, changes its logits, or has another loss.
    """
    import torch
    from torch.nn import functional as F

    named = dict(inputs[1])
    labels = named.pop("labels", None)
    own = labels is not None
    if own and getattr(model, "loss_type", "") != "ForCausalLM":
        raise BudgetError(
            f"the loss of {type(model).__name__} is not known to be ForCausalLMLoss, which chunks"
            " stand for; leave out --loss-chunks"
        )
    head = _output_layer(model, vocab)
    with _passed_through(head) as given:
        output = model(*inputs[0], **named)
    hidden = output if isinstance(output, torch.Tensor) else next(tensors_in(output, 2), None)
    if len(given) != 1 or hidden is not given[0]:
        raise BudgetError(
            f"{type(model).__name__} changes its logits after {shown(type(head).__name__)}, its"
            " output layer; leave out --loss-chunks"
        )
    if own:  # ForCausalLMLoss pads the labels with what it ignores, and drops the first
        targets = F.pad(labels, (0, 1), value=-100)[:, 1:].reshape(-1)
    else:
        tokens = [t for t in tensors_in([inputs[0], named]) if not t.is_floating_point()]
        targets = tokens[0].reshape(-1)
    flat = hidden.reshape(-1, hidden.shape[-1])  # [tokens, hidden]
    size = -(-flat.shape[0] // chunks)

    def summed(part: Any, wanted: Any) -> Any:
        logits = head(part)
        return F.cross_entropy(logits.float() if own else logits, wanted, reduction="sum")

    total: Any = 0
    for part, wanted in zip(flat.split(size), targets.split(size), strict=True):
        total = total + recomputed(summed, contexts, part, wanted)
    counted = flat.shape[0] - (hidden.shape[0] if own else 0)  # the last of each row has no next
    return total / counted


def _output_layer(model: Any, vocab: int) -> Any:
    """Returns the layer that makes logits from hidden states.

    Raises:
        BudgetError: none is known.
    """
    import torch

    find = getattr(model, "get_output_embeddings", None)
    found = find() if find is not None else None
    if found is None:
        linear = [one for one in model.modules() if isinstance(one, torch.nn.Linear)]
        found = next((one for one in reversed(linear) if one.out_features == vocab), None)
    if found is None:
        raise BudgetError(
            f"{type(model).__name__} has no nn.Linear with as many outputs as the vocabulary;"
            " leave out --loss-chunks"
        )
    return found


@contextmanager
def _passed_through(layer: Any) -> Iterator[list[Any]]:
    """Makes the layer return its input; yields the inputs that it was given."""
    given: list[Any] = []

    def forward(hidden: Any) -> Any:
        given.append(hidden)
        return hidden

    layer.forward = forward
    try:
        yield given
    finally:
        del layer.forward

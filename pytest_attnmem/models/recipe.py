"""What a model does: a step of training, the reading of a prompt, or the making of tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import BudgetError
from .inputs import InputSpec

#: The steps of training that run: the optimizer's state exists only after the first.
STEPS = 2


@dataclass(frozen=True, slots=True)
class Recipe:
    """A program around a model."""

    train: str | Callable[..., Any] = ""
    """``adamw``, ``sgd``, ``adafactor``, or a function from parameters to an optimizer; empty:
    inference."""
    dtype: str = "float32"
    """The dtype of the weights."""
    autocast: str = ""
    """The dtype of ``torch.autocast`` around the forward pass; empty: none."""
    checkpoint: bool = False
    """True to keep only the inputs of layers for backward, which recomputes the rest."""
    accumulate: int = 1
    """The number of forward and backward passes for one step of the optimizer."""
    new_tokens: int = 0
    """The number of tokens to make one by one, after the prompt, with a KV cache."""
    sdpa: str = ""
    """The backend of scaled_dot_product_attention, such as ``flash``; empty: PyTorch chooses."""
    loss: Callable[..., Any] | None = None
    """The loss from the model's output; the model's own, else cross entropy, else the mean."""
    inputs: tuple[InputSpec, ...] = ()
    """The inputs; empty: ``input_ids=long[B,N]<vocab``."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """B, N and the other symbols of the inputs."""

    def __post_init__(self) -> None:
        if self.accumulate < 1:
            raise BudgetError(f"accumulate={self.accumulate}; write a whole number >= 1")
        if self.new_tokens < 0:
            raise BudgetError(f"new_tokens={self.new_tokens}; write a whole number >= 0")
        if self.new_tokens and self.train:
            raise BudgetError("a training step makes no tokens; leave out train or new_tokens")
        if not self.train and (self.checkpoint or self.accumulate > 1):
            raise BudgetError("checkpoint and accumulate need a backward pass; add train='adamw'")

    def __str__(self) -> str:
        sizes = " ".join(f"{name}={size}" for name, size in self.sizes.items())
        if self.train:
            name = self.train if isinstance(self.train, str) else self.train.__name__
            what = f"training step with {name}"
        else:
            made = self.new_tokens
            what = f"prompt and {made} new tokens" if made else "forward pass without gradients"
        extras = [
            self.dtype,
            *([f"autocast {self.autocast}"] if self.autocast else []),
            *(["checkpointed layers"] if self.checkpoint else []),
            *([f"{self.accumulate} micro-batches"] if self.accumulate > 1 else []),
        ]
        return f"{what}, {', '.join(extras)}, {sizes}"

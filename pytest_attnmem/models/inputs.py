"""The inputs of a model, written as ``input_ids=long[B,N]<vocab``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import BudgetError, FormulaError
from ..formulas.formula import Formula, parse_formula
from ..measurement.qkv_inputs import dtype_of
from ..units import format_values, shown

_SPEC: Final = re.compile(r"(?:(\w+)=)?(\w+)\[([^\]]*)\](?:<(\w+))?")
_KINDS: Final = frozenset({"long", "int", "float", "bool", "half"})


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input of a model."""

    name: str
    """The argument; empty for a positional one."""
    dtype: str
    """A dtype of torch; ``float`` is the dtype of the model."""
    dims: tuple[Formula, ...]
    below: str = ""
    """The symbol or number that bounds its integers, so that they may index an embedding."""

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Returns the sizes of the dimensions.

        Raises:
            BudgetError: a symbol has no value.
        """
        try:
            return tuple(int(dim.evaluate(sizes)) for dim in self.dims)
        except FormulaError as error:
            raise BudgetError(f"input {self}: {error}") from None

    def make(self, sizes: Mapping[str, int], dtype: Any, device: str) -> Any:
        """Returns the tensor: zeros where the integers have a bound, else ones."""
        import torch

        kind = dtype if self.dtype == "float" else dtype_of(self.dtype, floating_only=False)
        fill = torch.zeros if self.below else torch.ones
        return fill(self.shape(sizes), dtype=kind, device=device)

    def __str__(self) -> str:
        dims = ",".join(map(str, self.dims))
        name = f"{self.name}=" if self.name else ""
        return f"{name}{self.dtype}[{dims}]" + (f"<{self.below}" if self.below else "")


def parse_inputs(texts: Sequence[str]) -> tuple[InputSpec, ...]:
    """Returns the inputs of a model.

    Raises:
        BudgetError: a text is not ``name=dtype[B,N]`` or ``name=dtype[B,N]<vocab``.
    """
    return tuple(map(_parsed, texts))


def _parsed(text: str) -> InputSpec:
    match = _SPEC.fullmatch(text.replace(" ", ""))
    if match is None:
        raise BudgetError(
            f"cannot read input {shown(text)}; write input_ids=long[B,N]<vocab or x=float[B,N,512]"
        )
    name, dtype, dims, below = match.groups()
    if dtype not in _KINDS:
        dtype_of(dtype, f"input {shown(text)}", floating_only=False)
    try:
        sizes = tuple(parse_formula(dim) for dim in dims.split(",")) if dims else ()
    except FormulaError as error:
        raise BudgetError(f"input {shown(text)}: {error}") from None
    return InputSpec(name or "", dtype, sizes, below or "")


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
            raise BudgetError(
                "checkpoint and accumulate need a backward pass; add train='adamw', on the command"
                " line --train adamw"
            )

    def __str__(self) -> str:
        sizes = format_values(self.sizes)
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

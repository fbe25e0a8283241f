"""The inputs of a model, written as ``input_ids=long[B,N]<vocab``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..errors import BudgetError, FormulaError
from ..formulas.formula import Formula, parse_formula
from ..measurement.qkv_inputs import dtype_of
from ..units import shown

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

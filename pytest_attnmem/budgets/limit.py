"""A limit on a measurement, with its text in the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

from ..errors import AttnMemError, BudgetError
from ..formulas.exact_arithmetic import MAX_BITS
from ..formulas.formula import Formula
from ..measurement.installed_torch import missing_forms
from ..symbols.attention_shape import AttentionShape
from ..symbols.names import ALIASES
from ..units import format_exact, shown
from .formula_and_contract import FormulaAndContract
from .growth_contract import Contract
from .memory_model import MemoryModel, evaluate

Value = (
    int | Formula | MemoryModel | Contract | FormulaAndContract | Callable[[AttentionShape], int]
)


class Resolved(NamedTuple):
    """A limit for one shape and device."""

    nbytes: int | None
    """None for a model with scratch whose rules are not known for this torch."""
    values: Mapping[str, int]
    """The symbols that the limit read."""
    absent: str = ""
    """Why there are no bytes."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on bytes, a growth contract, or a formula with a contract on the bytes over it."""

    value: Value
    text: str
    """The limit in the words of the test."""

    @property
    def contract(self) -> Contract | None:
        """The growth contract; None for a limit on bytes."""
        if isinstance(self.value, FormulaAndContract):
            return self.value.contract
        return self.value if isinstance(self.value, Contract) else None

    @property
    def sum(self) -> FormulaAndContract | None:
        """The formula and the contract; None if the limit is not such a sum."""
        return self.value if isinstance(self.value, FormulaAndContract) else None

    @property
    def reads_all(self) -> bool:
        """True for a callable, which may read any symbol."""
        known = int | Formula | MemoryModel | Contract | FormulaAndContract
        return not isinstance(self.value, known)

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols that the limit is known to read."""
        return getattr(self.value, "symbols", frozenset())

    def resolve(self, shape: AttentionShape, kinds: tuple[str, ...]) -> Resolved:
        """Returns the limit in bytes for ``shape`` on a device of ``kinds``.

        Raises:
            BudgetError: a symbol has no value, or a callable does not return bytes.
            FormulaError: the value of the formula is not a number of bytes.
        """
        scratch = isinstance(self.value, MemoryModel) and self.value.has_scratch(kinds)
        if scratch and (missing := missing_forms()):
            return Resolved(None, {}, missing)
        return Resolved(self._nbytes(shape, kinds), self._read(shape))

    def _nbytes(self, shape: AttentionShape, kinds: tuple[str, ...]) -> int:
        value = self.value
        if isinstance(value, int):
            return value
        if isinstance(value, FormulaAndContract):
            value = value.formula
        if isinstance(value, Formula):
            return evaluate(value, shape)
        if isinstance(value, MemoryModel):
            return value.peak(shape, kinds)
        if isinstance(value, Contract):
            raise BudgetError(f"contract {value} bounds growth, not bytes")
        return self._returned(value, shape)

    def _read(self, shape: AttentionShape) -> dict[str, int]:
        """Returns the symbols that the limit reads, and their values, in the order of ``shape``."""
        read = frozenset(shape.symbols) if self.reads_all else self.symbols
        if self.sum is not None:
            read = self.sum.formula.symbols
        values = {name: value for name, value in shape.symbols.items() if name in read}
        return values | {n: shape[n] for n in sorted(read & ALIASES.keys() - values.keys())}

    def _returned(self, function: Callable[[AttentionShape], int], shape: AttentionShape) -> int:
        try:
            nbytes = function(shape)
        except AttnMemError:
            raise
        except Exception as error:  # raised by the user's code: one line in the report
            raise BudgetError(f"budget {self.text} raised {shown(error, 200)}") from error
        if hint := as_int(nbytes):
            raise BudgetError(f"budget {self.text} returned {hint}")
        whole = isinstance(nbytes, int) and not isinstance(nbytes, bool)
        if not whole or nbytes < 0 or nbytes >> MAX_BITS:
            raise BudgetError(
                f"budget {self.text} returned {shown(nbytes)}; expected whole bytes, an int >= 0"
                f" and < 2**{MAX_BITS}"
            )
        return nbytes


def limit_on(value: Value, written: str = "") -> Limit:
    """Returns the limit for a value; ``written`` is its text where the test wrote text."""
    return Limit(value, " ".join(written.split()) or _words(value))


def as_int(value: Any) -> str:
    """Returns ``the float 12288.0; wrap it in int(...)`` for whole bytes of another type."""
    other = isinstance(value, Real) and not isinstance(value, int)
    if not other or not (0 <= value < 1 << MAX_BITS and value % 1 == 0):  # nan is neither
        return ""
    return f"the {type(value).__name__} {shown(value)}; wrap it in int(...)"


def _words(value: Value) -> str:
    if isinstance(value, int):
        return format_exact(value)
    if isinstance(value, Formula):
        return " ".join(value.text.split())
    if isinstance(value, MemoryModel):
        return value.name
    if isinstance(value, Contract | FormulaAndContract):
        return value.text
    return getattr(value, "__qualname__", None) or type(value).__name__

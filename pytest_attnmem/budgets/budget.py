"""What a test promised (``BudgetSpec``, as written) and what that is in bytes (``Budget``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from ..errors import AttnMemError, BudgetError
from ..formulas.exact_arithmetic import MAX_BITS
from ..formulas.formula import Formula
from ..symbols.attention_shape import AttentionShape
from ..symbols.names import ALIASES
from ..units import format_exact, shown
from .growth_contract import Contract
from .memory_model import MemoryModel, evaluate
from .tolerance import NONE, Tolerance

#: Pytest shows where the test called, and not our frames below it.
__tracebackhide__ = True

Bytes = int | Formula | MemoryModel | Callable[[AttentionShape], int]
Limit = Bytes | Contract

#: Why there is nothing to hold a measurement to where no marker and no function was given a limit.
NO_LIMIT = "no limit was given"


@dataclass(frozen=True, slots=True)
class BudgetSpec:
    """A budget as it was written."""

    text: str
    """The limit in the words of the test."""
    limits: Mapping[str, Limit]
    """Device kind → limit; one that is not by device stands under ``default``."""
    metric: str = "peak"
    tolerance: Tolerance = NONE
    exact: bool = False
    backend: str | None = None
    device: str | None = None
    warmup: int = 0
    symbols: Mapping[str, object] = field(default_factory=dict)
    where: str = ""
    """``test_attn.py:12``."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget in bytes, and where they come from."""

    limit_bytes: int | None
    """``None``: there is nothing to hold the measurement to, for the reason in ``absent``."""
    text: str = ""
    values: Mapping[str, int] = field(default_factory=dict)
    """The symbols that the limit read."""
    where: str = ""
    metric: str = "peak"
    tolerance: Tolerance = NONE
    exact: bool = False
    absent: str = ""
    contract: Contract | None = None
    """How the measurement may grow with sizes, in place of a limit."""


def resolve(spec: BudgetSpec, shape: AttentionShape, kinds: tuple[str, ...]) -> Budget:
    """The budget in bytes, for the test's ``shape`` on a device of ``kinds`` (closest first).

    Raises:
        BudgetError: a symbol without a value, or with two; a callable that returns no bytes.
        FormulaError: the formula's value is no number of bytes.
    """
    kind = next((kind for kind in (*kinds, "default") if kind in spec.limits), None)
    common = {
        "where": spec.where,
        "metric": spec.metric,
        "tolerance": spec.tolerance,
        "exact": spec.exact,
    }
    if kind is None:
        absent = (
            f"no limit for {kinds[-1] if kinds else 'this device'}, only for"
            f" {', '.join(spec.limits)}"
            if spec.limits
            else NO_LIMIT
        )
        return Budget(None, absent=absent, **common)  # type: ignore[arg-type]
    limit = spec.limits[kind]
    if isinstance(limit, Contract):
        return Budget(None, limit.text, contract=limit, **common)  # type: ignore[arg-type]
    limit_bytes, read = _evaluate(limit, shape, kinds)
    values = {name: value for name, value in shape.symbols.items() if name in read}
    values |= {name: shape[name] for name in sorted(read & ALIASES.keys() - values.keys())}
    text = spec.text if len(spec.limits) == 1 else f"{kind}: {_describe(limit)}"
    return Budget(limit_bytes, text, values, **common)  # type: ignore[arg-type]


def _evaluate(
    limit: Bytes, shape: AttentionShape, kinds: tuple[str, ...]
) -> tuple[int, frozenset[str]]:
    if isinstance(limit, int):
        return limit, frozenset()
    if isinstance(limit, Formula):
        return evaluate(limit, shape), limit.symbols
    if isinstance(limit, MemoryModel):
        return limit.peak(shape, kinds), limit.symbols
    name = _describe(limit)
    try:
        value = limit(shape)
    except AttnMemError:
        raise
    except Exception as error:  # the user's own code: its fault is one line of their report
        raise BudgetError(f"budget {name} raised {shown(error, 200)}") from error
    if hint := _as_int(value):
        raise BudgetError(f"budget {name} returned {hint}")
    if not isinstance(value, int) or isinstance(value, bool) or value < 0 or value >> MAX_BITS:
        raise BudgetError(
            f"budget {name} returned {shown(value)}; expected whole bytes, an int >= 0 and"
            f" < 2**{MAX_BITS}"
        )
    return value, frozenset(shape.symbols)


def _as_int(value: Any) -> str:
    """Return ``the float 12288.0; wrap it in int(...)`` for whole bytes of another type."""
    other = isinstance(value, Real) and not isinstance(value, int)
    if not other or not (0 <= value < 1 << MAX_BITS and value % 1 == 0):  # nan is neither
        return ""
    return f"the {type(value).__name__} {shown(value)}; wrap it in int(...)"


def _describe(limit: object) -> str:
    if isinstance(limit, str):
        return " ".join(limit.split())
    if isinstance(limit, int):
        return format_exact(limit)
    if isinstance(limit, Formula):
        return " ".join(limit.text.split())
    if isinstance(limit, MemoryModel):
        return limit.name
    if isinstance(limit, Contract):
        return limit.text
    return getattr(limit, "__qualname__", None) or type(limit).__name__

"""Reads the arguments of the marker ``memory_budget``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, Final

from ..errors import BudgetError
from ..formulas.exact_arithmetic import MAX_BITS
from ..formulas.formula import Formula, parse_formula
from ..measurement.measurement import METRICS
from ..suggestion import closest, did_you_mean, product
from ..symbols.names import ALIASES, SYMBOLS
from ..symbols.sizes import itemsize_of
from ..units import parse_size, shown
from .budget import BudgetSpec
from .formula_and_contract import FormulaAndContract, split
from .growth_contract import Contract, is_contract
from .limit import Limit, Value, as_int, limit_on
from .memory_model import MemoryModel
from .tolerance import parse_tolerance

_KIND = re.compile(r"sm\d{2,3}|[a-z]+")


#: The usual device kinds; other backends may have more.
_KINDS = ("cuda", "cpu", "rocm", "xpu", "mps", "accelerator", "default")


#: A number and perhaps a word: its error should be about sizes, not about formulas.
_SIZE = re.compile(r"\s*[-+]?[\d.,_]+(?:[eE][-+]?\d+)?\s*([A-Za-z]*)\s*")


#: Units after a number that are also symbols or their products; 2BN is a formula.
_UNITS = ("", "B", "M", "MB")


_MAX_NAME = 64


#: The only bound on compiled code: the memory of the same code when it runs eagerly.
NO_MORE = "<=eager"


_KNOWN = frozenset(SYMBOLS) | frozenset(ALIASES) | {"dtype", "threads"}


def memory_budget(
    limit: Any = None,
    *,
    metric: str = "peak",
    tolerance: Any = 0,
    exact: bool = False,
    backend: str | None = None,
    device: str | None = None,
    warmup: int = 0,
    ranks: int | None = None,
    compiled: str | None = None,
    fixed: Any = (),
    **symbols: Any,
) -> BudgetSpec:
    """hold the test's peak memory to limit: a size, formula, contract, model, callable or dict."""
    limits = _parse_limits(limit)
    check_metric(metric)
    if not isinstance(exact, bool):
        raise BudgetError(f"exact={shown(exact)} is not a bool; write exact=True or leave it out")
    if not isinstance(warmup, int) or isinstance(warmup, bool) or not 0 <= warmup <= 1000:
        raise BudgetError(f"warmup={shown(warmup)} is not a number of runs from 0 to 1000")
    if ranks is not None and (not isinstance(ranks, int) or isinstance(ranks, bool) or ranks < 1):
        raise BudgetError(f"ranks={shown(ranks)} is not a number of ranks; write ranks=8")
    if compiled not in (None, NO_MORE):
        raise BudgetError(f"compiled={shown(compiled)} is not a bound; write compiled={NO_MORE!r}")
    if type(device).__name__ == "device":  # torch's, found by its name: torch is not imported here
        device = str(device)
    for name, value in (("backend", backend), ("device", device)):
        if value is not None and not (isinstance(value, str) and len(value) <= _MAX_NAME):
            raise BudgetError(
                f"{name}={shown(value)} is not a name; write {name}='cpu', for example"
            )
    _check_symbols(symbols, limits)
    kept = _fixed(fixed, limits)
    if compiled:
        warmup = max(warmup, 1)  # compiles
    return BudgetSpec(
        limits,
        metric,
        parse_tolerance(tolerance),
        exact,
        backend,
        device,
        warmup,
        compiled is not None,
        kept,
        symbols,
    )


_SIGNATURE: Final = inspect.signature(memory_budget)
_OPTIONS: Final = tuple(
    name for name, one in _SIGNATURE.parameters.items() if one.kind is one.KEYWORD_ONLY
)


def parse(arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> BudgetSpec:
    """Returns the budget that the arguments of a marker describe.

    Raises:
        BudgetError, FormulaError, SizeError: an argument cannot be read.
    """
    try:
        _SIGNATURE.bind(*arguments, **keywords)
    except TypeError as error:
        raise BudgetError(f"expected one limit and keywords: {error}") from error
    return memory_budget(*arguments, **keywords)


def check_metric(metric: object) -> None:
    """Checks that a metric exists.

    Raises:
        BudgetError: there is no such metric.
    """
    if not isinstance(metric, str) or metric not in METRICS:
        raise BudgetError(f"unknown metric {shown(metric)}; expected one of {', '.join(METRICS)}")


def _fixed(names: object, limits: Mapping[str, Limit]) -> frozenset[str]:
    """Returns the names of the arguments that a contract does not vary."""
    listed = (names,) if isinstance(names, str) else names
    if not isinstance(listed, (tuple, list, set, frozenset)) or not all(
        isinstance(name, str) and name.isidentifier() for name in listed
    ):
        raise BudgetError(
            f"fixed={shown(names)} does not name arguments of the test; write fixed=('steps',)"
        )
    if listed and not any(limit.contract for limit in limits.values()):
        raise BudgetError(
            f"fixed={shown(names)} says what a growth contract does not vary, and the limit has no"
            " contract; leave it out"
        )
    return frozenset(listed)


def _parse_limits(limit: object) -> dict[str, Limit]:
    if limit is None:
        return {}
    if not isinstance(limit, Mapping):
        written = limit if isinstance(limit, str) else ""
        return {"default": limit_on(_parse_value(limit), written)}
    if not limit:
        raise BudgetError("an empty dict is not a budget; write {'cuda': …, 'default': …}")
    for kind in limit:
        _check_kind(kind)
    return {kind: limit_on(_parse_value(value)) for kind, value in limit.items()}


def _check_kind(kind: object) -> None:
    word = kind if isinstance(kind, str) else ""
    known = _KIND.fullmatch(word)
    close = "cuda" if word == "gpu" else closest(word, _KINDS, 0.7)
    if not known or (close and word not in _KINDS):
        hint = f"; did you mean {close!r}?" if close else ""
        raise BudgetError(
            f"unknown device kind {shown(kind)} in the budget; expected cuda, sm90 (a compute"
            f" capability), cpu, another device type or default{hint}"
        )


def _parse_value(limit: object) -> Value:
    if isinstance(limit, str):
        if is_contract(limit):
            return parse_growth(limit)
        size = _SIZE.fullmatch(limit)
        if size and (size[1] in _UNITS or not product(size[1])):
            return parse_size(limit)
        formula = parse_formula(limit)
        return formula if formula.symbols else formula.evaluate({})
    if isinstance(limit, int) and not isinstance(limit, bool):
        if limit < 0:
            raise BudgetError(f"limit {shown(limit)} is negative; a budget is 0 bytes or more")
        if limit >> MAX_BITS:
            raise BudgetError(
                f"limit {shown(limit)} is too large; a budget is below 2**{MAX_BITS} bytes"
            )
        return limit
    if isinstance(limit, (Formula, MemoryModel, Contract, FormulaAndContract)):
        return limit
    forward = getattr(limit, "forward", None)
    if isinstance(forward, MemoryModel):
        raise BudgetError("a kernel's model has two budgets; write MODEL.forward or MODEL.training")
    if callable(limit):
        return limit
    if hint := as_int(limit):
        raise BudgetError(f"cannot read limit: {hint}")
    raise BudgetError(
        f"cannot read limit {shown(limit)} ({type(limit).__name__}); expected a size"
        " ('64 MiB'), whole bytes, a formula, a growth contract, a MemoryModel, a callable or a"
        " dict by device"
    )


def parse_growth(text: str) -> Contract | FormulaAndContract:
    """Returns the contract, or the formula and the contract, of a text that has a contract.

    Raises:
        BudgetError, FormulaError, SizeError: the text cannot be read.
    """
    written, contract = split(text)
    if not written:
        return contract
    value = _parse_value(written)  # a bare number lacks its unit here too
    formula = value if isinstance(value, Formula) else parse_formula(written)
    return FormulaAndContract(" ".join(text.split()), formula, contract)


def _check_symbols(symbols: Mapping[str, object], limits: Mapping[str, Limit]) -> None:
    _check_names(symbols, limits)
    for name, value in symbols.items():
        if name == "dtype":
            itemsize_of(value)
        elif hint := as_int(value):
            raise BudgetError(f"symbol {name} in the marker is {hint}")
        elif not isinstance(value, int):
            raise BudgetError(f"symbol {name}={shown(value)} in the marker is not a whole number")
        elif abs(value) >> MAX_BITS:
            raise BudgetError(
                f"symbol {name}={shown(value)} in the marker is too large; a symbol is below"
                f" 2**{MAX_BITS}"
            )


def _check_names(symbols: Mapping[str, object], limits: Mapping[str, Limit]) -> None:
    if any(limit.reads_all for limit in limits.values()):
        return
    read = _KNOWN.union(*(limit.symbols for limit in limits.values()))
    for name in symbols:
        if name not in read:
            raise BudgetError(
                f"unknown keyword {shown(name)}: the limit reads no such symbol, and the options"
                f" are limit, {', '.join(_OPTIONS)}{did_you_mean(name, {*_OPTIONS, *read})}"
            )

"""Reads the arguments of a test: the values of symbols, and the sizes that can be varied."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import TYPE_CHECKING, NamedTuple
from unittest import TestCase

from ..budgets.growth_contract import Contract
from ..errors import BudgetError
from ..suggestion import closest, did_you_mean
from ..symbols.attention_shape import Source
from ..symbols.names import ALIASES, SYMBOLS, WORLD
from .fresh_fixtures import is_made_once
from .plan import params_of, values_of
from .ranks import RANK, world_of

if TYPE_CHECKING:
    import pytest


class Variable(NamedTuple):
    """The symbols of a test that can be varied."""

    arguments: Mapping[str, str]
    """Symbol → the name of the argument with its size."""
    notes: tuple[str, ...]
    """The symbols that the test takes but that cannot be varied, with the reasons."""


def arguments(item: pytest.Item) -> Source:
    """Returns the test's arguments that may be symbols: parameters, and values that fixtures made.

    Other arguments are not kept: a tensor among them must be freed with its test.
    """
    values = {**params_of(item), **values_of(item)}
    known = {n: value for n, value in values.items() if n == "dtype" or isinstance(value, int)}
    return Source("the test's arguments", known)


def variable(item: pytest.Item, contract: Contract, fixed: Set[str] = frozenset()) -> Variable:
    """Returns the symbols that the test takes: those of *contract*, then all its other sizes.

    *fixed* are the arguments that the marker does not vary, by their names or as symbols.

    Raises:
        BudgetError: no symbol of the contract can be varied, or *fixed* names no argument.
    """
    taken = _taken(item)
    if odd := sorted(fixed - {*taken, *taken.values()}):
        known = ", ".join(taken.values()) or "nothing"
        raise BudgetError(
            f"fixed={odd[0]!r} is not an argument of the test, which takes {known}"
            f"{did_you_mean(odd[0], taken.values())}"
        )
    free = {s: name for s, name in taken.items() if not fixed & {s, name}}
    named = [symbol for symbol in sorted(contract.symbols) if symbol in free]
    others = [s for s in free if s not in contract.symbols and _is_size(item, s, free[s])]
    found = {symbol: is_made_once(item, free[symbol]) for symbol in (*named, *others)}
    shared = {symbol: fixture for symbol, fixture in found.items() if fixture}
    wanted = named if contract.symbols else others
    if not wanted and issubclass(getattr(item, "cls", None) or object, TestCase):
        raise BudgetError(
            f"contract {contract} varies an argument, and a method of a unittest.TestCase takes"
            " none; write a function, or use attnmem.growth"
        )
    if not wanted:
        raise BudgetError(_absent(contract, free))
    if all(symbol in shared for symbol in wanted):
        symbol = wanted[0]
        raise BudgetError(
            f"contract {contract} varies {symbol}, which the fixture {shared[symbol]!r} takes"
            " too, and its scope is not the test; take it only in the test"
        )
    return Variable(
        {symbol: free[symbol] for symbol in (*named, *others) if symbol not in shared},
        tuple(
            f"{symbol} was not varied: the fixture {fixture!r} takes it, and its scope is not the"
            " test"
            for symbol, fixture in shared.items()
        ),
    )


def further_sizes(item: pytest.Item, known: Collection[str]) -> list[str]:
    """Returns the whole numbers above 1 that a test is parametrized with, except known symbols."""
    given = params_of(item).items()
    sizes = {ALIASES.get(name, name): size for name, size in given if type(size) is int}
    return sorted(name for name, size in sizes.items() if size > 1 and name not in known)


def further_arguments(item: pytest.Item) -> dict[str, str]:
    """Returns symbol → parameter for the sizes of a test that have no usual name."""
    names = further_sizes(item, SYMBOLS)
    return {name: name for name in names if name in _taken(item) and not is_made_once(item, name)}


def varies(item: pytest.Item, contract: Contract, fixed: Set[str]) -> bool:
    """Returns True if *contract* names a symbol, or if the test takes a size that is not fixed."""
    free = {s: name for s, name in _taken(item).items() if not fixed & {s, name}}
    return bool(contract.symbols or any(_is_size(item, *taken) for taken in free.items()))


def _taken(item: pytest.Item) -> dict[str, str]:
    """Returns symbol → argument of the test; an argument whose symbol is taken keeps its name."""
    info = getattr(item, "_fixtureinfo", None)
    found: dict[str, str] = {}
    own = info.argnames if info is not None else ()
    for name in dict.fromkeys([*own, *params_of(item)]):
        symbol = ALIASES.get(name, name)
        found[name if symbol in found else symbol] = name
    if world_of(item) is not None:
        for name in (RANK, WORLD):  # worlds of other sizes run apart
            found.pop(name, None)
    return found


def _is_size(item: pytest.Item, symbol: str, name: str) -> bool:
    """Returns True for an argument whose value is a size.

    The number of a fixture that has no usual name and no parameters may be anything, such as a
    port.
    """
    params = params_of(item)
    if name not in params and (symbol not in SYMBOLS or symbol == "itemsize"):
        return False
    value = values_of(item).get(name, params.get(name, 1))
    return type(value) is int and value > 0


def sized_arguments(item: pytest.Item) -> dict[str, str]:
    """Returns symbol → the argument of the test that has its size, for the usual symbols."""
    wanted = tuple(((symbol, 1),) for symbol in SYMBOLS if symbol != "itemsize")
    values = values_of(item)
    try:
        names = variable(item, Contract("", wanted)).arguments
    except BudgetError:
        return {}
    return {
        symbol: name
        for symbol, name in names.items()
        if symbol in SYMBOLS
        and isinstance(values.get(name), int)
        and not isinstance(values[name], bool)
    }


def _absent(contract: Contract, taken: Mapping[str, str]) -> str:
    symbols = sorted(contract.symbols) or ["N"]
    for symbol in symbols:
        if close := closest(symbol, taken):
            return (
                f"contract {contract} varies {symbol}, and the test takes {close}; did you mean"
                f" {close}?"
            )
    either = " or ".join(symbols) if contract.symbols else "a symbol such as B, H, N or d"
    return (
        f"contract {contract} needs an argument of the test to vary: {either};"
        f" write @pytest.mark.parametrize({symbols[0]!r}, [2048]) and take {symbols[0]}"
    )

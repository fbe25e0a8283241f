"""Reads the arguments of a test: the values of symbols, and the sizes that can be varied."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple
from unittest import TestCase

from ..budgets.growth_contract import Contract
from ..errors import BudgetError
from ..suggestion import closest
from ..symbols.attention_shape import Source
from ..symbols.names import ALIASES, SYMBOLS
from .size_reads import reads

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
    callspec = getattr(item, "callspec", None)
    params: Mapping[str, object] = callspec.params if callspec else {}
    values = {**params, **getattr(item, "funcargs", {})}
    known = {n: value for n, value in values.items() if n == "dtype" or isinstance(value, int)}
    return Source("the test's arguments", known)


def variable(item: pytest.Item, contract: Contract) -> Variable:
    """Returns the symbols that the test takes: the symbols of *contract*, then the usual symbols.

    Raises:
        BudgetError: no symbol of the contract can be varied.
    """
    info = getattr(item, "_fixtureinfo", None)
    taken = {ALIASES.get(name, name): name for name in (info.argnames if info is not None else ())}
    named = [symbol for symbol in sorted(contract.symbols) if symbol in taken]
    usual = [s for s in SYMBOLS if s in taken and s not in contract.symbols and s != "itemsize"]
    made = {} if info is None else info.name2fixturedefs
    declared = {fixture: definitions[-1].argnames for fixture, definitions in made.items()}
    shared = {
        symbol: fixture
        for symbol in (*named, *usual)
        for fixture, arguments in (*declared.items(), *reads(item).items())
        if taken[symbol] in arguments
    }
    wanted = named if contract.symbols else usual
    if not wanted and issubclass(getattr(item, "cls", None) or object, TestCase):
        raise BudgetError(
            f"contract {contract} varies an argument, and a method of a unittest.TestCase takes"
            " none; write a function, or use attnmem.growth"
        )
    if not wanted:
        raise BudgetError(_absent(contract, taken))
    if all(symbol in shared for symbol in wanted):
        symbol = wanted[0]
        raise BudgetError(
            f"contract {contract} varies {symbol}, which the fixture {shared[symbol]!r} takes"
            " too, and a fixture is made once; take it only in the test"
        )
    return Variable(
        {symbol: taken[symbol] for symbol in (*named, *usual) if symbol not in shared},
        tuple(
            f"{symbol} was not varied: the fixture {fixture!r} takes it too, and is made once"
            for symbol, fixture in shared.items()
        ),
    )


def further_sizes(item: pytest.Item, known: Collection[str]) -> list[str]:
    """Returns the whole numbers above 1 that a test is parametrized with, except known symbols."""
    callspec = getattr(item, "callspec", None)
    params: Mapping[str, object] = callspec.params if callspec else {}
    sizes = {ALIASES.get(name, name): size for name, size in params.items() if type(size) is int}
    return sorted(name for name, size in sizes.items() if size > 1 and name not in known)


def varies(item: pytest.Item, contract: Contract) -> bool:
    """Returns True if the test takes a usual symbol, or if *contract* names one."""
    info = getattr(item, "_fixtureinfo", None)
    taken = {ALIASES.get(name, name) for name in (info.argnames if info is not None else ())}
    return bool(contract.symbols or taken & {*SYMBOLS} - {"itemsize"})


def sized_arguments(item: pytest.Item) -> dict[str, str]:
    """Returns symbol → the argument of the test that has its size, if no fixture takes it."""
    wanted = tuple(((symbol, 1),) for symbol in SYMBOLS if symbol != "itemsize")
    values = getattr(item, "funcargs", {})
    try:
        names = variable(item, Contract("", wanted)).arguments
    except BudgetError:
        return {}
    return {
        symbol: name
        for symbol, name in names.items()
        if isinstance(values.get(name), int) and not isinstance(values[name], bool)
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

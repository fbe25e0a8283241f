"""Replaces arguments of a test, and makes the fixtures anew that read them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from .fresh_fixtures import is_made_anew, made_anew
from .plan import PLAN

if TYPE_CHECKING:
    from .plan import Plan

#: The arguments that each fixture read while it was made.
_READ = pytest.StashKey[dict[str, frozenset[str]]]()


@contextmanager
def given(item: Any, sizes: Mapping[str, int]) -> Iterator[None]:
    """Gives other values to arguments of the test, however its body and its fixtures read them.

    Raises:
        BudgetError: a fixture cannot be made with these values.
    """
    params = getattr(getattr(item, "callspec", None), "params", {})
    with pytest.MonkeyPatch.context() as patch:
        for name, size in sizes.items():
            patch.setitem(item.funcargs, name, size)
            if name in params:
                patch.setitem(params, name, size)
            for definition in item._fixtureinfo.name2fixturedefs.get(name, ())[-1:]:
                if definition.cached_result is not None:  # the value of request.getfixturevalue
                    kept = (size, *definition.cached_result[1:])
                    patch.setattr(definition, "cached_result", kept)
        with made_anew(item, readers(item, sizes)):
            yield


def readers(item: Any, arguments: Collection[str]) -> list[str]:
    """Returns the fixtures that take or read an argument, and those that take these, in order.

    They are those that were made for the test: none before its setup.
    """
    made = getattr(getattr(item, "_request", None), "_fixture_defs", {})
    read = item.stash.get(_READ, {})
    known = {*arguments}
    while more := {
        name
        for name, definition in made.items()
        if name not in known and known & {*definition.argnames, *read.get(name, ())}
    }:
        known |= more
    return [name for name in made if name in known and name not in arguments]


def is_made_once(item: Any, argument: str) -> str:
    """Returns the fixture that reads an argument and is not made anew; "" if there is none."""
    made = item._request._fixture_defs if hasattr(item, "_request") else {}
    return next((name for name in readers(item, [argument]) if not is_made_anew(made[name])), "")


@contextmanager
def noted(item: pytest.Item, fixture: str) -> Iterator[None]:
    """Records the arguments that a fixture reads while it is made, if a contract varies any."""
    if not _has_contract(item.stash.get(PLAN, None)):
        yield
        return
    read: set[str] = set()
    plain = pytest.FixtureRequest.getfixturevalue

    def getfixturevalue(request: pytest.FixtureRequest, argname: str) -> Any:
        read.add(argname)
        return plain(request, argname)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pytest.FixtureRequest, "getfixturevalue", getfixturevalue)
        if callspec := getattr(item, "callspec", None):
            watched = replace(callspec, params=_Watched(callspec.params, read))
            patch.setattr(item, "callspec", watched)
        try:
            yield
        finally:  # later reads, by the body, may be varied
            item.stash.setdefault(_READ, {})[fixture] = frozenset(read)


class _Watched(Mapping[str, object]):
    """The parameters of a test; records the parameters that are read."""

    def __init__(self, params: Mapping[str, object], read: set[str]) -> None:
        self._params = params
        self._read = read

    def __getitem__(self, name: str) -> object:
        self._read.add(name)
        return self._params[name]

    def __contains__(self, name: object) -> bool:
        return name in self._params

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)


def _has_contract(plan: Plan | None) -> bool:
    return plan is not None and any(spec.contracts for spec, _ in plan.budgets)

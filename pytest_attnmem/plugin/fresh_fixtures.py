"""Fixtures for a test that runs again as if for the first time."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from ..errors import BudgetError, CannotSimulate
from ..units import shown
from .another_run import other_values
from .plan import PLAN, Plan, params_of

#: The packages whose fixtures belong to the run of a test, and are not made again.
_STAY = ("_pytest.", "pytest_attnmem.", "pytest_asyncio.")
#: What suites call a loop of their own for pytest-asyncio before 1.0, which has one at a time.
_EVENT_LOOP = "event_loop"
#: Pytest makes fixtures of a class's ``setup_method`` and ``setup_function``.
_SETUP = "_xunit_setup_"


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _forget_warnings(found: pytest.WarningsRecorder) -> None:
    found.clear()
    with warnings.catch_warnings():  # each line that has warned may warn again
        pass


#: What a run leaves in pytest's own fixtures, by name, and what takes it back.
_RESETS: Final[Mapping[str, Callable[[Any], object]]] = MappingProxyType(
    {
        "tmp_path": _empty,
        "tmpdir": lambda folder: _empty(Path(folder)),
        **dict.fromkeys(
            ("capsys", "capfd", "capsysbinary", "capfdbinary"), lambda found: found.readouterr()
        ),
        "caplog": lambda found: found.clear(),
        "recwarn": _forget_warnings,
        "monkeypatch": lambda patches: patches.undo(),
    }
)


def renew_fixtures(item: pytest.Item) -> None:
    """Makes the fixtures of the test anew whose scope is the test: its first run changed them.

    What the run left in pytest's own is taken back. Fixtures of a wider scope stay.

    Raises:
        CannotSimulate: one of them cannot be made again.
    """
    request: Any = getattr(item, "_request", None)
    made = getattr(request, "_fixture_defs", None)
    arguments: dict[str, Any] | None = getattr(item, "funcargs", None)
    if made is None or arguments is None:  # a doctest, or a class of unittest, which has setUp
        return
    names, name = own_fixtures(item), ""
    try:
        for name in reversed(names):
            made[name].finish(request)
        for name in made.keys() & _RESETS.keys():
            _RESETS[name](request.getfixturevalue(name))
        for name in names:
            made.pop(name, None)
            arguments.pop(name, None)
            _places(request).pop(name, None)
        for name in names:
            value = request.getfixturevalue(name)
            if name in item.fixturenames:  # type: ignore[attr-defined]
                arguments[name] = value
    except Exception as error:
        raise CannotSimulate(
            f"the test must run again, and its fixture {name!r} cannot: {shown(error, 160)}; name"
            " the device of each tensor"
        ) from error


class NotMadeAnew(BudgetError):
    """A fixture cannot be made a second time beside the first, because it takes a port, say."""


@contextmanager
def made_anew(item: Any, names: Sequence[str]) -> Iterator[None]:
    """Makes fixtures of the test a second time, beside the first; ends the second at the exit.

    Raises:
        NotMadeAnew: one of them cannot be made, or raises an error at its end.
    """
    if not names:
        yield
        return
    request = item._request
    made = request._fixture_defs
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(made[name], "cached_result", None)
            patch.setattr(made[name], "_finalizers", [])
            patch.delitem(made, name)
            patch.delitem(_places(request), name, raising=False)
        try:
            for name in names:
                with _as_budget_error(name):
                    value = request.getfixturevalue(name)
                if name in item.funcargs:
                    patch.setitem(item.funcargs, name, value)
            yield
        finally:
            for name in reversed(names):
                if name in made:
                    with _as_budget_error(name):
                        made[name].finish(request)


def _places(request: Any) -> dict[str, int]:
    """Returns which of the fixtures of a name pytest 8.0 has made, the last one first."""
    found: dict[str, int] = getattr(request, "_arg2index", {})
    return found


@contextmanager
def _as_budget_error(name: str) -> Iterator[None]:
    try:
        yield
    except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
        raise NotMadeAnew(f"the fixture {name!r} raised {shown(error, 160)}") from error


def own_fixtures(item: Any) -> list[str]:
    """Returns the fixtures of the user's whose scope is the test, in the order they were made."""
    made = getattr(getattr(item, "_request", None), "_fixture_defs", {})
    return [name for name, fixture in made.items() if is_made_anew(fixture)]


def is_made_anew(fixture: Any) -> bool:
    """Returns True for a fixture of the user's whose scope is the test."""
    module = getattr(fixture.func, "__module__", None) or ""
    own = fixture.argname.startswith(_SETUP) or not f"{module}.".startswith(_STAY)
    return bool(own and fixture.scope == "function" and fixture.argname != _EVENT_LOOP)


#: The arguments that each fixture read while it was made.
_READ = pytest.StashKey[dict[str, frozenset[str]]]()


@contextmanager
def given(item: Any, sizes: Mapping[str, int]) -> Iterator[None]:
    """Gives other values to arguments of the test, however its body and its fixtures read them.

    Raises:
        BudgetError: a fixture cannot be made with these values.
    """
    params = params_of(item)
    with pytest.MonkeyPatch.context() as patch, other_values(item, sizes):
        for name in sizes.keys() & params.keys():
            patch.setitem(params, name, sizes[name])
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
    plan: Plan | None = item.stash.get(PLAN, None)
    if plan is None or not any(spec.contracts for spec, _ in plan.budgets):
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
    """The parameters of a test, as they are at each read; records the parameters that are read."""

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

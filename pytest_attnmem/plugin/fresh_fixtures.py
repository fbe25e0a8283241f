"""Fixtures for a test that runs again as if for the first time."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from ..errors import BudgetError, CannotSimulate
from ..units import shown

#: The packages whose fixtures belong to the run of a test, and are not made again.
_STAY = ("_pytest.", "pytest_attnmem.")
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
    names = [name for name, fixture in made.items() if is_made_anew(fixture)]
    name = ""
    try:
        for name in reversed(names):
            made[name].finish(request)
        for name in made.keys() & _RESETS.keys():
            _RESETS[name](request.getfixturevalue(name))
        for name in names:
            made.pop(name, None)
            arguments.pop(name, None)
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
        try:
            for name in names:
                value = _value(request, name)
                if name in item.funcargs:
                    patch.setitem(item.funcargs, name, value)
            yield
        finally:
            for name in reversed(names):
                if name in made:
                    with _as_budget_error(name):
                        made[name].finish(request)


def _value(request: pytest.FixtureRequest, name: str) -> object:
    with _as_budget_error(name):
        return request.getfixturevalue(name)


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
    return bool(own and fixture.scope == "function")

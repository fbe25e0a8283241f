"""Runs a test again, and leaves the process as its first run left it.

The other ways were tried and do not serve. A fork loses the threads of a device's autograd, so
that a backward pass raises an error in it. After all tests it is too late: a budget fails its test
in the call phase. A process of its own makes each session's fixtures anew.
"""

from __future__ import annotations

import gc
import io
import logging
import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import IsolatedAsyncioTestCase

import pytest

from ..measurement.program_state import ProgramState
from ..measurement.random_states import Generators
from .plan import PLAN, fixtures_of, values_of

#: The generators of random numbers as the test's first run found them.
GENERATORS = pytest.StashKey[Generators]()
#: The state that the first run found, of a test whose other runs must find it too.
_BEFORE = pytest.StashKey[ProgramState]()
#: The state that the test's first run left.
_AFTER = pytest.StashKey[ProgramState]()


def reset_item(item: pytest.Item) -> None:
    """Resets a test so that it can run again."""
    instance = getattr(item, "instance", None)
    postponed = getattr(item, "_explicit_tearDown", None)
    if postponed is not None:  # under --pdb, until the debugger ends
        item._explicit_tearDown = None  # type: ignore[attr-defined]
        vars(instance).pop("tearDown", None)
        postponed()
    if isinstance(instance, IsolatedAsyncioTestCase):  # each run makes a new one
        instance._asyncioRunner = None  # type: ignore[attr-defined]


def begin_run(item: pytest.Item) -> None:
    """Keeps the generators as they are before the first run of the test.

    Of a test with a growth contract, the state of the program too: a run at a smaller size must not
    find the mask that the test made at its own. Likewise of one whose retained bytes have a limit,
    as a second run does not leave again what the first left.
    """
    item.stash[GENERATORS] = Generators()
    with suppress(OSError):
        if (folder := _folder(item)) is not None:
            item.stash[_FOUND] = frozenset(os.listdir(folder))
    if any(spec.contracts or spec.metric == "retained" for spec, _ in item.stash[PLAN].budgets):
        item.stash[_BEFORE] = _state(item)


def kept_state(item: pytest.Item) -> ProgramState:
    """Returns the state that the first run of the test left; it is kept on the first call."""
    if _AFTER not in item.stash:
        # The measured run itself follows a warm-up, and may free what that left.
        before = None if item.stash[PLAN].warmup else item.stash.get(_BEFORE, None)
        item.stash[_AFTER] = _state(item, before)
    return item.stash[_AFTER]


def _state(item: pytest.Item, before: ProgramState | None = None) -> ProgramState:
    used = {id(primed): primed.backend for _, primed in item.stash[PLAN].budgets}
    modules = [name for name in _modules(item) if name]
    return ProgramState(fixture_values(item), modules, used.values(), before)


def forget_state(item: pytest.Item) -> None:
    """Lets go of the states, before the fixtures of the test end."""
    keys: tuple[pytest.StashKey[Any], ...] = (GENERATORS, _BEFORE, _AFTER)
    for key in keys:
        if key in item.stash:
            del item.stash[key]


@contextmanager
def another_run(item: pytest.Item, *, empty_caches: bool = True) -> Iterator[list[BaseException]]:
    """Runs the body as the first run began, and puts back what it changes; reports nothing.

    With ``empty_caches``, each ``lru_cache`` is empty, as in a first run; the run finds what the
    first run found, where that is kept. Yields the errors of subtests, which do not end the test.

    Raises:
        AttnMemError: a tensor that was changed is too large to be put back.
    """
    reset_item(item)
    state, generators = kept_state(item), Generators()
    try:
        begin = item.stash.get(_BEFORE, None) if empty_caches else None
        run = state.for_a_run(empty_caches=empty_caches, begin=begin)
        with (
            suppress_reporting(item) as swallowed,
            folder_aside(item),
            run as others,
            other_values(item, others),
        ):
            begin_again(item)
            try:
                yield swallowed
            finally:
                reset_item(item)
    finally:
        generators.put_back()
    state.check_put_back()


@contextmanager
def other_values(item: Any, others: Mapping[str, object]) -> Iterator[None]:
    """Gives the test other values of its fixtures for a while."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in others.items():
            patch.setitem(item.funcargs, name, value)
            for made in fixtures_of(item).get(name, ())[-1:]:
                if made.cached_result is not None:  # else it is a parameter, and no fixture
                    patch.setattr(made, "cached_result", (value, *made.cached_result[1:]))
        yield


def begin_again(item: pytest.Item) -> None:
    """Puts generators and pytest's own fixtures back as the first run of the test found them."""
    fill_folder(item)
    if caplog := values_of(item).get("caplog"):
        caplog.clear()
    if GENERATORS in item.stash:
        item.stash[GENERATORS].put_back()


def _modules(item: Any) -> Iterator[str]:
    """Yields the names of the modules of the test, of its class, and of its fixtures."""
    yield getattr(getattr(item, "module", None), "__name__", "")
    yield getattr(getattr(item, "cls", None), "__module__", "")
    for found in fixtures_of(item).values():
        yield from (getattr(one.func, "__module__", "") or "" for one in found)


def fixture_values(item: Any) -> Mapping[str, object]:
    """Returns the values of the test's fixtures, and its instance, by name."""
    made = {
        name: found[-1].cached_result[0]
        for name, found in fixtures_of(item).items()
        if found and found[-1].cached_result is not None
    }
    instance = getattr(item, "instance", None)
    return made if instance is None else {**made, "self": instance}


def end_own_fixtures(item: Any) -> None:
    """Puts the values of fixtures back that end with the test, so that a run leaves nothing there.

    What is still alive then, the test's end does not free.
    """
    own = {
        name for name, found in fixtures_of(item).items() if found and found[-1].scope == "function"
    }
    kept_state(item).put_values_back({*own, "self"})
    gc.collect()


#: The fixtures through which a test reads its output, also when it runs again.
_READERS = ("capsys", "capfd", "capteesys")


@contextmanager
def quiet(item: pytest.Item) -> Iterator[None]:
    """Swallows warnings and logs, and output unless the test reads its output."""
    nowhere = io.TextIOWrapper(io.BytesIO(), "utf-8", "replace")  # has a .buffer, as stdout does
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings(record=True))
        stack.enter_context(_without_logs())
        if not any(name.startswith(_READERS) for name in getattr(item, "fixturenames", ())):
            stack.enter_context(_without_captured(item.config))
            stack.enter_context(redirect_stdout(nowhere))
            stack.enter_context(redirect_stderr(nowhere))
        yield


@contextmanager
def _without_logs() -> Iterator[None]:
    """Gives pytest's handlers of logs an empty list and text for a while; ``caplog`` reads them.

    Handlers that print at once are silent.
    """
    root = logging.getLogger()
    ours: list[Any] = [one for one in root.handlers if type(one).__module__ == "_pytest.logging"]
    kept = [(one, one.records, one.stream) for one in ours if hasattr(one, "records")]
    printing = [one for one in ours if not hasattr(one, "records")]
    for handler in printing:
        root.removeHandler(handler)
    for handler, _, _ in kept:
        handler.records, handler.stream = [], io.StringIO()
    try:
        yield
    finally:
        for handler, records, stream in kept:
            handler.records, handler.stream = records, stream
        for handler in printing:
            root.addHandler(handler)


@contextmanager
def _without_captured(config: pytest.Config) -> Iterator[None]:
    """Drops what reaches pytest's capture all the same, as from a logger that kept the stream."""
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    if capture is None or not capture.is_globally_capturing():
        yield
        return
    texts = capture.read_global_capture()
    try:
        yield
    finally:
        capture.read_global_capture()
        for text, stream in zip(texts, (sys.stdout, sys.stderr), strict=True):
            if text:  # of the first run, for the report
                stream.write(text)
                stream.flush()


@contextmanager
def suppress_reporting(item: pytest.Item) -> Iterator[list[BaseException]]:
    """Keeps properties, output and subtests of another run out of the reports.

    Yields the errors of subtests, which do not end the test.
    """
    swallowed: list[BaseException] = []
    properties = [*item.user_properties]
    with pytest.MonkeyPatch.context() as patch, quiet(item):
        if hasattr(item, "_excinfo"):
            patch.setitem(vars(item), "_excinfo", [])  # else pytest would report these errors
        if hasattr(item, "addSubTest"):  # from pytest 9 on
            patch.setitem(vars(item), "addSubTest", lambda *_: None)
        if subtests := values_of(item).get("subtests"):
            patch.setitem(vars(subtests), "test", partial(_subtest, swallowed))
        try:
            yield swallowed
        finally:
            item.user_properties[:] = properties


@contextmanager
def _subtest(
    swallowed: list[BaseException], msg: str | None = None, **kwargs: object
) -> Iterator[None]:
    """Replaces ``subtests.test``: a failure is kept, but not reported."""
    try:
        yield
    except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
        swallowed.append(error)


#: The names in the test's ``tmp_path`` before its first run.
_FOUND = pytest.StashKey[frozenset[str]]()
#: The folder that has what the first run left, while another run goes on.
_ASIDE = pytest.StashKey[Path]()


@contextmanager
def folder_aside(item: pytest.Item) -> Iterator[None]:
    """Sets the folder of the first run aside for a while; puts it and the working directory back.

    A folder that cannot be renamed, as with open files on Windows, stays as it is.
    """
    folder, place, aside = _folder(item), _place(), None
    if folder is not None and _FOUND in item.stash and _ASIDE not in item.stash:
        with suppress(OSError):
            aside = folder.rename(folder.with_name(f"{folder.name}-aside"))
            item.stash[_ASIDE] = aside
            folder.mkdir()
    try:
        yield
    finally:
        if folder is not None and aside is not None:
            del item.stash[_ASIDE]
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)
        if place and place != _place():
            os.chdir(place)


def fill_folder(item: pytest.Item) -> None:
    """Gives a run the folder as the first run found it."""
    folder, aside = _folder(item), item.stash.get(_ASIDE, None)
    if folder is None or aside is None:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    for name in item.stash[_FOUND]:
        with suppress(OSError):  # the first run may have removed it
            if (aside / name).is_dir():
                shutil.copytree(aside / name, folder / name, symlinks=True)
            else:
                shutil.copy2(aside / name, folder / name, follow_symlinks=False)


def _folder(item: Any) -> Path | None:
    found = values_of(item).get("tmp_path")
    if found is None:
        fixture = getattr(getattr(item, "_request", None), "_fixture_defs", {}).get("tmp_path")
        found = fixture.cached_result[0] if fixture and fixture.cached_result else None
    return found if isinstance(found, Path) else None


def _place() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""

"""Keeps what another run of a test writes out of the reports: output, logs and warnings."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from typing import Any

import pytest

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
        _write_back(texts)


def _write_back(texts: tuple[str, str]) -> None:
    """Writes the output of the first run to the capture again, so that the report shows it."""
    for text, stream in zip(texts, (sys.stdout, sys.stderr), strict=True):
        if text:
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
        if subtests := getattr(item, "funcargs", {}).get("subtests"):
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

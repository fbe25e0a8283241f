"""The line of progress."""

import io
import sys

import pytest

from pytest_attnmem.cli.progress import progress


@pytest.mark.parametrize(
    ("after_s", "terminal", "written"),
    [(0.0, True, "\r\x1b[Khalf\r\x1b[K"), (1e9, True, ""), (0.0, False, "")],
)
def test_it_is_shown_on_a_terminal_and_only_if_the_work_takes_long(
    monkeypatch, after_s, terminal, written
):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    show = progress(after_s)
    show("half")
    show("")
    assert stream.getvalue() == written

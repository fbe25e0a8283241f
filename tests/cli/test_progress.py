"""The line of progress."""

import io
import sys

import pytest

from pytest_attnmem.cli.progress import progress


@pytest.mark.parametrize(("terminal", "written"), [(True, "\r\x1b[Khalf\r\x1b[K"), (False, "")])
def test_it_is_shown_on_a_terminal_only(monkeypatch, terminal, written):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    show = progress()
    show("half")
    show("")
    assert stream.getvalue() == written

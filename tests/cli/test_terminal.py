"""The line of progress, and the width and the colours of standard output."""

import io
import re
import sys
import threading

import pytest

from pytest_attnmem.backends.cpu_threads import allocates_nothing
from pytest_attnmem.cli import main
from pytest_attnmem.cli import terminal as line
from pytest_attnmem.cli.terminal import ProgressLine, painted, progress, width


class Terminal(io.StringIO):
    """A stream that tells when something was written."""

    def __init__(self):
        super().__init__()
        self.written = threading.Event()

    def isatty(self):
        return True

    def flush(self):
        self.written.set()


def on_terminal(monkeypatch):
    """Makes standard error a terminal, in the test itself: pytest replaces it before each."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def test_long_work_has_a_line_that_is_cleared_at_its_end(monkeypatch):
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(line, "_SILENT_S", 0.0)
    monkeypatch.setattr(line, "_BETWEEN_S", 0.0)
    with progress("first") as show:
        assert terminal.written.wait(60)
        show("second " + "x" * 99)
        while "second" not in terminal.getvalue():
            pass
    first, *_, last, end = terminal.getvalue().split("\r\x1b[K")[1:]
    assert re.fullmatch(r"first, \d s", first)
    assert re.fullmatch(r"second x{67,68}, \d+ s", last)
    assert end == ""


def test_short_work_and_another_place_than_a_terminal_have_none(monkeypatch):
    terminal = on_terminal(monkeypatch)
    with progress("first"):
        pass
    assert terminal.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    before = threading.enumerate()
    with progress("first") as show:
        show("second")
        assert threading.enumerate() == before
    assert sys.stderr.getvalue() == ""


def test_another_place_has_a_line_for_each_text_if_asked(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress("first", lines=True) as show:
        show("second")
        monkeypatch.setattr(line.time, "monotonic", lambda now=line.time.monotonic: now() + 2)
        show("third")
        show("fourth")
    assert sys.stderr.getvalue() == "third\nfourth\n"


def test_the_thread_is_none_of_a_measured_program():
    assert allocates_nothing(ProgressLine("first"))


SIZES = ["--B", "1", "--H", "1", "--d", "16"]
SMALL = ["--d", "16", "--n", "64", "--batch", "1", "--simulate"]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (["predict", "standard", "--N", "64", *SIZES], "importing torch"),
        (["max-length", "standard", *SIZES], "importing torch"),
        (["doctor"], "importing torch"),
        (["sweep", *SMALL], "importing torch"),
        (["derive", "no:f", "N"], "deriving no:f"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_commands_say_what_they_do(monkeypatch, command, text):
    on_terminal(monkeypatch)
    said = []
    monkeypatch.setattr(ProgressLine, "start", lambda self: said.append(self._text))
    monkeypatch.setattr(ProgressLine, "show", lambda self, text: said.append(text))
    monkeypatch.setattr(ProgressLine, "end", lambda self: said.append(""))
    main(command)
    assert (said[0], said[-1]) == (text, "")


def test_a_terminal_has_a_width_and_colours_and_a_file_has_neither(monkeypatch):
    assert (width(), painted("over", "red")) == (0, "over")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "72")
    assert (width(), painted("over", "red")) == (72, "\x1b[31mover\x1b[0m")
    assert painted("", "red") == ""
    assert painted("measured", "") == "measured"
    monkeypatch.setenv("NO_COLOR", "1")
    assert painted("over", "red") == "over"

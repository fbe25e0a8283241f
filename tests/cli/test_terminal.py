"""The width and the colours of standard output."""

import sys

from pytest_attnmem.cli.terminal import painted, width


def test_a_terminal_has_a_width_and_colours(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "72")
    assert (width(), painted("over", "red")) == (72, "\x1b[31mover\x1b[0m")
    assert painted("", "red") == ""
    assert painted("measured", "") == "measured"
    monkeypatch.setenv("NO_COLOR", "1")
    assert painted("over", "red") == "over"


def test_a_file_has_neither():
    assert (width(), painted("over", "red")) == (0, "over")

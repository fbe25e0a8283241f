"""``attnmem plot``: figures of sweeps and of sessions."""

import json

import pytest

from pytest_attnmem.cli import main
from pytest_attnmem.report.json import render as render_session
from pytest_attnmem.report.record import Record
from pytest_attnmem.report.summary import summarise
from pytest_attnmem.sweep.results import OK, Row, Sweep, render

COMMON = {"batch": "8", "heads": "1", "dtype": "float32", "backward": True, "device": "cpu"}
ROW = Row("a", 8, 1, 64, 16, "float32", True, True, OK, "measured", peak_bytes=1 << 20)
GROWTH = {"sizes": {"N": [8, 16]}, "peaks": [1024, 4096], "formula": None}


@pytest.fixture
def plot(tmp_path, capsys):
    """Draws a file's text; the exit code and what was said."""

    def drawn(text, name="figure.png"):
        (tmp_path / "data.json").write_text(text)
        code = main(["plot", str(tmp_path / "data.json"), "-o", str(tmp_path / name)])
        out, err = capsys.readouterr()
        assert out == ""
        return code, err.replace(str(tmp_path), "…")

    return drawn


SWEEP = render(Sweep(COMMON, {}, (ROW,)))
SESSION = render_session(summarise([Record("test_a.py::test_b", growth=(GROWTH,))]), {})


@pytest.mark.parametrize("text", [SWEEP, SESSION], ids=["sweep", "session"])
@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_a_figure_is_written(plot, tmp_path, text, name, start):
    assert plot(text, name) == (0, "")
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "cannot read …/data.json: it is not a JSON file of attnmem sweep or of pytest"
         " --attnmem-json"),
        (json.dumps({"schema": 7, "results": []}),
         "cannot read …/data.json: its schema is 7, this version reads 1"),
        (json.dumps({"schema": 1, "environment": {}, "results": [], "growth": []}),
         "there is nothing to draw: no growth over one symbol in that session"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_told_in_one_line(plot, text, message):
    assert plot(text) == (2, f"attnmem plot: {message}\n")
    suffix = "attnmem plot: cannot draw a.gif: its name must end in .png or .svg\n"
    assert plot(SWEEP, "a.gif") == (2, suffix)

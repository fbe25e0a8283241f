"""Rules that every figure keeps."""

import sys

import pytest

from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.plot import STYLES, figure, save, style


def test_without_matplotlib_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(AttnMemError) as caught:
        figure()
    assert str(caught.value) == (
        "figures need matplotlib, which is not installed; pip install 'pytest-attnmem[plot]'"
    )


def test_lines_differ_without_colour():
    marks = {(style(place)["marker"], str(style(place)["linestyle"])) for place in range(6)}
    assert len(marks) == len(STYLES) == 6
    assert style(6) == style(0)


@pytest.mark.parametrize(
    ("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml version=")], ids=["png", "svg"]
)
def test_the_same_figure_gives_the_same_file(tmp_path, suffix, start):
    for name in ("one", "two"):
        drawn, axes = figure()
        axes.plot([1, 2], [3, 4], **style(0))
        save(drawn, tmp_path / (name + suffix))
    written = (tmp_path / f"one{suffix}").read_bytes()
    assert written.startswith(start)
    assert written == (tmp_path / f"two{suffix}").read_bytes()


def test_a_figure_is_a_png_or_an_svg(tmp_path):
    drawn, _ = figure()
    with pytest.raises(AttnMemError) as caught:
        save(drawn, tmp_path / "a.gif")
    assert str(caught.value) == "cannot draw a.gif: its name must end in .png or .svg"
    with pytest.raises(AttnMemError, match=r"cannot write .*a\.png: No such file"):
        save(drawn, tmp_path / "none" / "a.png")


def test_columns_are_axes_side_by_side():
    drawn, axes = figure(2, width=5)
    assert len(axes) == len(drawn.axes) == 2
    assert drawn.get_figwidth() == 10

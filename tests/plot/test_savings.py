"""Bars of saved memory: their heights, and the numbers above them."""

import sys

import pytest

from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.plot import STYLES, figure, save, style
from pytest_attnmem.plot.savings import draw
from pytest_attnmem.profiling import Peak, ScalingRow


def row(seq_len, standard, linear):
    peaks = {"standard": Peak(standard, 1), "linear": Peak(linear, 1)}
    return ScalingRow(seq_len, 1, peaks)


def bars(axes):
    return [bar.get_height() for bar in axes.patches]


def notes(axes):
    return [text.get_text() for text in axes.texts]


def test_a_bar_a_length_with_its_number():
    (axes,) = draw([row(1024, 123, 10), row(512, 100, 32)]).axes
    assert bars(axes) == [3.125, 12.3]
    assert notes(axes) == ["3.1x", "12.3x"]
    assert [text.xy for text in axes.texts] == [(0, 3.125), (1, 12.3)]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["512", "1024"]
    assert axes.get_xlabel() == "sequence length, tokens"
    assert axes.get_ylabel() == "peak of standard / peak of linear (bidir), times"


@pytest.mark.parametrize("peaks", [(None, 10), (10, None), (None, None)])
def test_where_memory_ran_out_there_is_no_bar(peaks):
    (axes,) = draw([row(512, 20, 10), row(1024, *peaks)]).axes
    assert bars(axes) == [2, 0]
    assert notes(axes) == ["2.0x", "OOM"]


def test_any_two_kernels_that_were_measured():
    (axes,) = draw([row(512, 10, 40)], of="standard", over="linear").axes
    assert bars(axes) == [4]
    assert axes.get_title() == "Memory savings of standard attention"
    with pytest.raises(AttnMemError) as caught:
        draw([row(512, 1, 1)], of="flash")
    assert str(caught.value) == (
        "no savings to draw: flash was not measured at N=512; that row has standard, linear"
    )


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

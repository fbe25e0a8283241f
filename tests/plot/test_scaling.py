"""Figures of memory over length: their data and their labels."""

import math

import pytest

from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.plot.savings import draw as draw_savings
from pytest_attnmem.plot.scaling import draw, draw_quadratic
from pytest_attnmem.profiling import (
    Peak,
    ScalingRow,
    estimate_attention_memory,
    measure_attention_memory,
)

MIB = 1 << 20
ROWS = (
    ScalingRow(
        1024, 6 * MIB, {"standard": Peak(None, 64 * MIB, "-"), "linear": Peak(9 * MIB, 8 * MIB)}
    ),
    ScalingRow(
        512, 3 * MIB, {"standard": Peak(16 * MIB, 16 * MIB), "linear": Peak(4 * MIB, 4 * MIB)}
    ),
)


def lines(axes):
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.get_lines()
        if not line.get_label().startswith("_")
    }


def notes(axes):
    return [text.get_text() for text in axes.texts]


def test_the_quadratic_picture():
    axes = draw_quadratic({N: estimate_attention_memory(N, 64) for N in (1024, 512, 4096)}).axes[0]
    drawn = lines(axes)
    assert drawn == {
        "Attention matrix": ([512, 1024, 4096], [1, 4, 64]),
        "Q, K and V": ([512, 1024, 4096], [0.375, 0.75, 3]),
        "Output": ([512, 1024, 4096], [0.125, 0.25, 1]),
    }
    assert notes(axes) == ["1 MiB", "4 MiB", "64 MiB"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("sequence length, tokens", "memory, MiB")
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_the_quadratic_picture_shows_a_measured_peak():
    stats = measure_attention_memory(128, 16)
    axes = draw_quadratic({128: stats}).axes[0]
    assert lines(axes)["Peak above Q, K and V"] == ([128], [stats["peak_memory"] / MIB])


def test_the_left_panel_is_what_was_measured():
    left, _ = draw(ROWS).axes
    drawn = lines(left)
    assert drawn["Linear (bidir)"] == ([512, 1024], [4, 9])
    lengths, sizes = drawn["Standard"]
    assert (lengths, sizes[0]) == ([512, 1024], 16)
    assert math.isnan(sizes[1])
    assert notes(left) == ["OOM"]
    assert left.texts[0].xy[0] == 1024
    shown = [line for line in left.get_lines() if not line.get_label().startswith("_")]
    assert len({line.get_marker() for line in shown}) == len(shown) == 2  # without colour too


def test_the_right_panel_is_theory_and_measurement():
    _, right = draw(ROWS).axes
    drawn = lines(right)
    assert drawn["Standard, theory"] == ([512, 1024], [16, 64])
    assert drawn["Linear (bidir), theory"] == ([512, 1024], [4, 8])
    assert drawn["Linear (bidir), measured"] == ([512, 1024], [4, 9])
    assert drawn["Standard, measured"][1][0] == 16
    looks = {line.get_label(): line for line in right.get_lines()}
    assert looks["Standard, measured"].get_linestyle() == "None"
    assert looks["Standard, theory"].get_marker() == ""


def test_axes_have_units_and_lengths_for_ticks():
    for axes in draw(ROWS).axes:
        assert axes.get_xlabel() == "sequence length, tokens"
        assert axes.get_ylabel() == "peak memory above the inputs, MiB"
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["512", "1024"]
        assert axes.get_legend() is not None


def test_several_that_run_out_have_a_mark_each_and_any_kernel_a_name():
    gone = ScalingRow(8, 1, {"standard": Peak(None, 1, ""), "sdpa-flash": Peak(None, 1, "")})
    left, _ = draw([gone]).axes
    assert len({text.xy[1] for text in left.texts}) == 2
    assert [*lines(left)] == ["Standard", "sdpa-flash"]


@pytest.mark.parametrize("drawing", [draw, draw_quadratic, draw_savings])
def test_nothing_cannot_be_drawn(drawing):
    with pytest.raises(AttnMemError) as caught:
        drawing({})
    assert str(caught.value) == "there is nothing to draw: no sequence length was measured"

"""The figure of a sweep: its data, the device's limit, and points out of memory."""

import pytest

from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.plot.sweep_figure import draw, draw_growth
from pytest_attnmem.sweep.results import OK, OOM, Row, Sweep

MIB = 1 << 20


def row(kernel, N, d=16, peak=None, status=OK, **times):
    peak = None if peak is None else peak * MIB
    return Row(
        kernel, 8, 1, N, d, "float32", True, True, status, "simulated", peak_bytes=peak, **times
    )


def sweep(*rows, memory=64 * MIB):
    common = {"batch": "8", "heads": "1", "dtype": "float32", "backward": True}
    return Sweep(
        {**common, "device": "simulated:GTX 1080", "memory_bytes": memory}, {}, tuple(rows)
    )


def lines(axes):
    return {line.get_label(): ([*line.get_xdata()], [*line.get_ydata()]) for line in axes.lines}


def test_peaks_over_lengths_and_the_limit():
    made = sweep(
        row("standard", 256, peak=10),
        row("standard", 64, peak=2),
        row("standard", 1024, peak=100, status=OOM),
        row("flash", 64, peak=1),
        row("flash", 256, status="error"),
    )
    (axes,) = draw(made).axes
    drawn = lines(axes)
    assert drawn["standard, d=16"] == ([64, 256, 1024], [2, 10, 100])
    assert drawn["flash, d=16"] == ([64], [1])
    assert drawn["_out of memory"] == ([1024], [64])
    assert drawn["GTX 1080, 64.0 MiB; X: out of memory"][1] == [64, 64]
    standard = axes.lines[0]
    assert standard.get_markevery() == [0, 1]  # the points that fit
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("N, tokens", "peak memory, MiB")
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["64", "256", "1,024"]
    assert axes.get_title() == "Peak memory, B=8 H=1 float32"


def test_times_stand_beside_them():
    made = sweep(
        *(row("a", N, peak=1, forward_ms=N / 2, backward_ms=N * 2.0) for N in (64, 128)),
        row("b", 64, peak=1, forward_ms=3.0),
        memory=None,
    )
    memory, times = draw(made).axes
    assert "a, d=16" in lines(memory)
    assert len(lines(memory)) == 2  # no limit
    assert lines(times) == {
        "a, d=16, forward": ([64, 128], [32, 64]),
        "a, d=16, backward": ([64, 128], [128, 256]),
        "b, d=16, forward": ([64], [3]),
    }
    assert times.get_ylabel() == "time of a pass, ms"
    assert times.lines[0].get_fillstyle() != times.lines[1].get_fillstyle()


def test_of_many_lines_each_kernels_widest_are_drawn():
    many = [row(kernel, 64, d, peak=d) for kernel in "abcd" for d in (8, 32, 16)]
    (axes,) = draw(sweep(*many)).axes
    assert [label for label in lines(axes) if "d=" in label] == [f"{name}, d=32" for name in "abcd"]
    looks = {(line.get_marker(), line.get_linestyle()) for line in axes.lines[:-1]}
    assert len(looks) == 4  # they differ without colour


def test_nothing_to_draw_is_an_error():
    with pytest.raises(AttnMemError, match="there is nothing to draw: no row of the sweep has a"):
        draw(sweep(row("a", 64, status="error")))
    with pytest.raises(AttnMemError, match="there is nothing to draw: no growth over one symbol"):
        draw_growth([{"sizes": {"N": [1], "d": [1]}, "peaks": [1]}])


def test_growth_of_a_session():
    entries = [
        {"nodeid": "tests/test_a.py::test_one", "region": "", "sizes": {"N": [8, 16]},
         "peaks": [MIB, 4 * MIB]},
        {"nodeid": "tests/test_a.py::test_two", "region": "step", "sizes": {"N": [8, 32]},
         "peaks": [MIB, 2 * MIB]},
        {"nodeid": "tests/test_a.py::both", "region": "", "sizes": {"N": [8], "d": [1]},
         "peaks": [1]},
    ]  # fmt: skip
    (axes,) = draw_growth(entries).axes
    assert lines(axes) == {"test_one": ([8, 16], [1, 4]), "test_two step": ([8, 32], [1, 2])}
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("N", "peak memory, MiB")

"""The figure of a roofline, by its data."""

import pytest

from pytest_attnmem.inference.analysis import analysis_of
from pytest_attnmem.plot import style
from pytest_attnmem.plot.roofline_figure import draw

A100 = {"name": "A100", "bandwidth_bytes_per_sec": 2e12, "compute_flops": 312e12}
LLAMA = {"num_params": 7e9, "num_layers": 32, "d_model": 4096, "num_heads": 32, "batch_size": 8}


@pytest.fixture
def found():
    return analysis_of(LLAMA, A100)


@pytest.fixture
def axes(found):
    [axes] = draw(found).axes
    return axes


@pytest.fixture
def lines(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def test_the_roof_breaks_at_the_ridge_point(axes, lines):
    assert list(lines) == ["roof", "ridge point, 156.0 FLOP/B", "decode", "prefill"]
    (left, ridge, right), rates = lines["roof"].get_data()
    assert (left, right) == axes.get_xlim()
    assert ridge == 156
    assert list(rates) == pytest.approx([left * 2, 312, 312])
    assert set(lines["ridge point, 156.0 FLOP/B"].get_xdata()) == {156}


@pytest.mark.parametrize(("place", "name"), [(0, "decode"), (1, "prefill")])
def test_operations_lie_on_the_roof_at_their_intensity(found, lines, place, name):
    assert lines[name].get_marker() == style(place)["marker"]
    intensities, rates = lines[name].get_data()
    assert list(intensities) == [float(one.intensity) for one in getattr(found, name).operations]
    assert list(rates) == pytest.approx([min(312, 2 * one) for one in intensities])


def test_axes_are_logarithmic_and_have_units(axes):
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlabel() == "arithmetic intensity, FLOP per byte"
    assert axes.get_ylabel() == "attainable, TFLOP/s"
    assert axes.get_title() == "A100: batch 8 of 2,048 tokens"


def test_every_operation_is_labelled_and_those_at_one_place_together(found, axes):
    assert [text.get_text() for text in axes.texts] == [
        *("attention", "output, QKV, MLP"),
        *("attention", "output", "QKV", "MLP"),
    ]
    decode = {one.name: float(one.intensity) for one in found.decode.operations}
    assert [text.xy[0] for text in axes.texts[:2]] == [
        decode["attention over the cache"],
        decode["MLP and the rest"],
    ]
    low, high = axes.get_ylim()
    assert all(low < text.xy[1] < high for text in axes.texts)

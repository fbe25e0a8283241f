"""The points of a sweep."""

import pytest
import torch

from pytest_attnmem.errors import BudgetError
from pytest_attnmem.kernels import KERNELS, standard
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.sweep.case import candidate_named, sweep_cases, timed_passes
from pytest_attnmem.sweep.runner import dimensions, with_dimensions

COMMON = {"batch": 2, "heads": 3, "dtype": torch.float32, "backward": True}


def listed(*names, causal=None):
    return [*sweep_cases(map(candidate_named, names), [16, 32], [64, 8], causal=causal, **COMMON)]


def test_they_come_kernel_by_kernel_then_by_width():
    found = [(c.attention.name, c.d, c.N) for c in listed("textbook", "flash")]
    assert found[:4] == [("textbook", d, N) for d in (16, 32) for N in (64, 8)]
    assert found[4:] == [("flash", d, N) for d in (16, 32) for N in (64, 8)]


def test_causal_is_what_a_kernel_knows_unless_told():
    assert [c.causal for c in listed("textbook", "linear", "linear-scan")[::4]] == [
        *(True, False, True)
    ]
    assert not any(c.causal for c in listed("textbook", causal=False))


def test_what_a_kernel_does_not_know_is_refused():
    with pytest.raises(BudgetError, match=r"^linear is not causal: leave out --causal$"):
        listed("linear", causal=True)
    with pytest.raises(BudgetError, match=r"^linear-scan is causal: leave out --no-causal$"):
        listed("linear-scan", causal=False)


def test_the_passes_that_are_timed_of_a_ring_are_not_here():
    (point, *_) = listed("textbook")
    forward, ready = timed_passes(point, "cpu")
    out = forward()
    assert (out.shape, out.requires_grad) == ((2, 3, 64, 16), False)
    assert ready()() is None
    (ring, *_) = listed("ring:4")
    with pytest.raises(BudgetError, match="ring:4 runs in processes of its own"):
        timed_passes(ring, "cpu")[0]()


def test_every_bundled_kernel_can_be_swept():
    for kernel in KERNELS:
        found = candidate_named(kernel.name)
        assert (found.name, found.model) == (kernel.name, kernel.model)
        assert found.causal == kernel.causal
        assert not found.masked
    assert candidate_named("standard").model is standard.MODEL
    own, ring = candidate_named("textbook"), candidate_named("ring:16")
    assert (own.masked, own.model, own.ranks) == (True, None, 1)
    assert (ring.attend, ring.ranks) == (None, 16)


@pytest.mark.parametrize("name", ["ring", "ring:0", "ring:-1", "ring:x", "flsh", ""])
def test_another_name_is_refused(name):
    with pytest.raises(BudgetError) as caught:
        candidate_named(name)
    text = str(caught.value)
    assert text.startswith(f"unknown kernel {name!r}; ")
    assert text.endswith(", ring:4")
    assert ("did you mean 'flash'? " in text) == (name == "flsh")


SYMBOLS = {"B": 1, "H": 8, "Hkv": 8, "N": 2048, "M": 2048, "d": 64, "dv": 64, "itemsize": 2}


def test_a_size_that_two_symbols_have_is_neither():
    symbols = {"B": 1, "H": 8, "N": 64, "M": 64, "d": 64, "dv": 64}
    matrix = Held(4, (1, 8, 64, 64), "float32", "bmm", "")
    assert with_dimensions(matrix, symbols).dims == ()
    assert with_dimensions(matrix, {**symbols, "d": 32, "dv": 32}).dims == ("1", "H", "N", "N")


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((1, 8, 2048, 2048), "B·H·N·N"),
        ((1, 8, 2048, 64), "B·H·N·d"),
        ((1, 8, 64, 2048), "B·H·d·N"),
        ((8, 2048, 64), "H·N·d"),
        ((2048, 2048), "N·N"),
        ((1, 8, 2048), "B·H·N"),
        ((1, 8, 2048, 1), "B·H·N·1"),
        ((1, 1, 2048, 2048), "B·1·N·N"),
        ((1,), "B"),
        ((), ""),
        ((1, 8, 2048, 512), ""),
        ((3, 8), ""),
    ],
    ids=str,
)
def test_sizes_by_their_symbols(shape, text):
    assert "·".join(dimensions(shape, SYMBOLS)) == text


@pytest.mark.parametrize(
    ("symbols", "shape", "text"),
    [
        ({"B": 4, "H": 4, "N": 4, "d": 4}, (4, 4, 4, 4), "B·H·N·d"),
        ({"B": 1, "H": 1, "N": 8, "d": 2}, (1, 1, 8, 8), "B·H·N·N"),
        ({"B": 2, "H": 8, "Hkv": 4, "N": 16, "M": 32, "d": 3}, (2, 4, 32, 3), "B·Hkv·M·d"),
        ({"B": 2, "H": 8, "Hkv": 8, "N": 16, "M": 16, "d": 3, "dv": 3}, (2, 8, 16, 3), "B·H·N·d"),
        ({"B": 2, "itemsize": 4, "window": 5}, (4,), ""),
        ({"B": 2, "itemsize": 4, "window": 5}, (5,), ""),
        ({}, (7,), ""),
        ({}, (1, 1), ""),
    ],
    ids=["in order", "ones", "apart", "defaults", "itemsize", "other", "none", "none of ones"],
)
def test_symbols_of_one_size_are_told_apart_by_their_order(symbols, shape, text):
    assert "·".join(dimensions(shape, symbols)) == text

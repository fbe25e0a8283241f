"""The points of a sweep."""

import pytest
import torch

from pytest_attnmem.errors import BudgetError
from pytest_attnmem.sweep.candidates import candidate_named
from pytest_attnmem.sweep.case import sweep_cases, timed_passes

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


@pytest.mark.parametrize(
    ("name", "causal", "message"),
    [
        ("linear", True, "linear is not causal: leave out --causal"),
        ("linear-scan", False, "linear-scan is causal: leave out --no-causal"),
    ],
)
def test_what_a_kernel_does_not_know_is_refused(name, causal, message):
    with pytest.raises(BudgetError, match=f"^{message}$"):
        listed(name, causal=causal)


def test_the_passes_that_are_timed():
    (point, *_) = listed("textbook")
    forward, ready = timed_passes(point, "cpu")
    out = forward()
    assert (out.shape, out.requires_grad) == ((2, 3, 64, 16), False)
    assert ready()() is None


def test_a_ring_is_run_by_processes_of_its_own():
    (point, *_) = listed("ring:4")
    forward, _ = timed_passes(point, "cpu")
    with pytest.raises(BudgetError, match="ring:4 runs in processes of its own"):
        forward()

"""Runs of one program at several sizes, and the closed form that fits them."""

import random

import pytest

from pytest_attnmem.closed_forms.closed_form import closed_form
from pytest_attnmem.closed_forms.live_sets import Allocated, Freed, aligned, peak
from pytest_attnmem.errors import BudgetError
from pytest_attnmem.measurement.held import Held


def tensor(nbytes, op="mm", shape=()):
    return Allocated(Held(nbytes, shape, "float32", op, "attn.py:1"))


def test_the_peak_of_a_run_is_the_highest_level():
    run = (tensor(8), tensor(16), Freed(0), tensor(4), Freed(1), tensor(30))
    assert peak(run) == 34
    assert peak(()) == 0


def test_runs_are_aligned_that_make_the_same_tensors():
    one = (tensor(8, shape=(2,)), Freed(0))
    assert aligned([one, (tensor(80, shape=(20,)), Freed(0))])
    assert not aligned([one, (tensor(8, "bmm", (2,)), Freed(0))])
    assert not aligned([one, (tensor(8, shape=(2,)),)])
    assert not aligned([one, (tensor(8, shape=(2, 1)), Freed(0))])


def run_of(sizes):
    """Two N x N matrices at once, then a long thin one, with scratch in between."""
    N, d = sizes["N"], sizes["d"]
    return (
        tensor(4 * N * N, "bmm", (N, N)),
        tensor(4 * N * N, "softmax", (N, N)),
        Allocated(Held.of_scratch(8, "softmax", "attn.py:1")),
        Freed(2),
        Freed(0),
        tensor(40 * N * d, "cat", (N, 10 * d)),
    )


def test_a_closed_form_has_every_live_set_that_can_be_the_largest():
    found = closed_form(run_of, ["N", "d"])
    assert str(found) == "max(8*N^2, 4*N^2 + 40*N*d)"
    first, second = found.candidates
    assert [term.text for term in second.terms] == ["4*N^2", "40*N*d"]
    assert [(h.op, h.shape, h.bytes) for h in second.terms[1].held] == [
        ("cat", "[N, 10*d]", "40*N*d")
    ]
    assert (first.region, second.region) == ("for N >= 10*d", "for N <= 10*d")
    assert (found.how, found.without_scratch) == ("derived", None)


def test_scratch_is_told_apart():
    found = closed_form(run_of, ["N", "d"], scratch=True)
    assert str(found) == "max(8*N^2 + 8, 4*N^2 + 40*N*d)"
    assert str(found.scratch) == "8"


def test_a_program_that_takes_another_way_is_interpolated():
    def blocks(sizes):
        return tuple(tensor(4 * sizes["d"]) for _ in range(sizes["N"] // 128))

    found = closed_form(blocks, ["N", "d"])
    assert (str(found), found.how) == ("N*d/32", "interpolated")


def test_no_polynomial_is_told_with_the_sizes_tried():
    draw = random.Random(0)
    with pytest.raises(BudgetError) as error:
        closed_form(lambda sizes: (tensor(draw.randint(1, 999)),), ["x"])
    assert str(error.value) == (
        "no polynomial goes through the peaks at x=16/32/48/64/96, most likely because of blocks or"
        " a branch on a size; give sizes that avoid them, as in"
        " sizes={'N': [512, 1024, 1536, 2048]}"
    )

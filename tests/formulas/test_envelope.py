"""What is left out of a maximum is never the largest, and what stays may be."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_attnmem.formulas.envelope import envelope
from pytest_attnmem.formulas.polynomial import Polynomial, expand

MONOMIALS = ((), (("N", 1),), (("B", 1),), (("B", 1), ("N", 1)), (("N", 2),), (("L", 1), ("N", 1)))
SOME = st.lists(
    st.builds(Polynomial, st.dictionaries(st.sampled_from(MONOMIALS), st.integers(-9, 99))),
    min_size=1,
    max_size=7,
)


@settings(max_examples=60, deadline=None)
@given(SOME, st.integers(1, 2))
def test_the_maximum_is_the_same_without_what_is_left_out(polynomials, least):
    kept = envelope(polynomials, {}, least)
    assert {*kept} <= {*polynomials}
    for B in (least, 3, 17):
        for N in (least, 5, 50):
            for L in (least, 4, 1000):
                at = {"B": B, "N": N, "L": L}
                assert max(p.value(at) for p in kept) == max(p.value(at) for p in polynomials)


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        (["N^2", "2*N"], ["N^2"]),  # 2*N is the largest at N=1 alone
        (["8*N^2", "4*N^2 + 4*N*d"], ["8*N^2", "4*N^2 + 4*N*d"]),
        # Two lines cross above the third.
        (["10*N", "100", "5*N + 20"], ["10*N", "100"]),
        (["10*N", "100", "5*N + 60"], ["10*N", "100", "5*N + 60"]),
        # The proof needs a multiple by L.
        (
            ["40*L*N + 20*N + 600*L", "1000*L + 5000", "40*L*N + 600*L + 90"],
            ["40*L*N + 20*N + 600*L", "1000*L + 5000"],
        ),
    ],
)
def test_what_is_never_the_largest_is_left_out(texts, kept):
    assert envelope(map(expand, texts), {}) == tuple(map(expand, kept))


def test_sizes_of_one_are_told_apart():
    both = [expand("N^2"), expand("2*N - 1"), expand("2*N")]
    assert len(envelope(both, {"N": 1})) == 2

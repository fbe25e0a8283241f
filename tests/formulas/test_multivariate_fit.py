"""Samples of the sizes of several symbols, and the one polynomial through all of their points."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.formulas.interpolation import Sample, fit, off_axes, sample
from pytest_attnmem.formulas.polynomial import Polynomial, expand

SIZES = {"B": (1, 2, 3, 4), "N": (128, 130, 256, 391, 512, 645), "d": (16, 32, 48, 64)}


def fitted(text: str, sizes: dict[str, tuple[int, ...]]) -> Polynomial | None:
    """Returns the fit to the bytes of a formula at the sample of *sizes*."""
    where, wanted = sample(sizes), expand(text)
    return fit(where, {at: int(wanted.value(where.named(at))) for at in where.points})


def test_a_sample_has_axes_through_the_middle_and_points_beside_them() -> None:
    where = sample(SIZES)
    assert where.symbols == ("B", "N", "d")
    assert where.base == (3, 391, 48)
    assert where.axes == (
        tuple((B, 391, 48) for B in SIZES["B"]),
        tuple((3, N, 48) for N in SIZES["N"]),
        tuple((3, 391, d) for d in SIZES["d"]),
    )
    assert len(where.beside) == 12
    assert all(size in SIZES[name] for at in where.beside for name, size in where.named(at).items())
    assert where == sample(SIZES)
    assert where.points[0] == where.base
    assert len({*where.points}) == len(where.points)
    assert {*where.points} == {where.base, *where.beside}.union(*where.axes)
    assert where.named((1, 2, 3)) == {"B": 1, "N": 2, "d": 3}


def test_points_off_the_axes_determine_each_product_and_confirm_it() -> None:
    chosen = off_axes((4, 4), ((1, 2, 4), (1, 2, 4)), (2, 2))
    assert chosen[0] == (1, 1)  # as many sizes of each as its form has terms, the base left out
    assert sorted(chosen[1:]) == [(1, 2), (2, 1), (2, 2)]  # all others
    sizes = (tuple(range(1, 9)), tuple(range(1, 9)))
    assert off_axes((4, 4), sizes, (3, 2))[:2] == ((1, 1), (2, 1))
    chosen = off_axes((4, 4), sizes, (3, 2))
    assert len({*chosen}) == len(chosen) == 2 + 4
    assert all(4 not in point for point in chosen)


def test_one_symbol_needs_no_point_beside_its_axis() -> None:
    where = sample({"N": (5, 6, 7, 8)})
    assert (where.base, where.points, where.beside) == ((7,), ((7,), (5,), (6,), (8,)), ())
    assert sample({"N": (5, 6), "d": (1, 2)}).beside == ((5, 1),)


@pytest.mark.parametrize(
    "text", ["12*B*N*d + 8*N*d + 4*d + 7", "B*N^2 + N*d", "7", "0", "3*B*d*ceil(N/32) + N"]
)
def test_a_polynomial_is_found_again(text: str) -> None:
    assert fitted(text, SIZES) == expand(text)


@given(st.integers(1, 10**6), st.integers(0, 2), st.integers(0, 2), st.integers(0, 1))
def test_a_product_of_powers_is_found_again(factor: int, n: int, d: int, b: int) -> None:
    sizes = {"B": (2, 3, 4, 5, 6), "N": (128, 256, 384, 512, 640), "d": (16, 32, 48, 64, 80)}
    text = f"{factor}*N^{n}*d^{d}*B^{b}"
    assert fitted(text, sizes) == expand(text)


def test_a_line_needs_two_sizes_that_confirm_it() -> None:
    assert fitted("4*N + 3", {"N": (5, 6, 7, 8)}) == expand("4*N + 3")
    assert fitted("4*N + 3", {"N": (5, 6, 7)}) is None
    assert fitted("3", {"N": (5, 6, 7)}) == expand("3")
    assert fitted("3", {"N": (5,)}) is None


def test_no_symbol_has_a_single_point_that_decides() -> None:
    assert sample({}) == Sample((), (), (), ())
    assert fit(sample({}), {(): 7}) == expand("7")


def test_an_axis_without_a_form_or_a_point_that_disagrees_leaves_no_fit() -> None:
    where = sample({"N": (1, 2, 4, 8, 16), "d": (1, 2, 3, 4)})
    assert fit(where, {at: 2 ** at[0] * at[1] for at in where.points}) is None
    values = {at: 8 * at[0] * at[1] for at in where.points}
    assert fit(where, values) == expand("8*N*d")
    beside = next(at for at in where.points if at[0] != 4 and at[1] != 3)
    assert fit(where, {**values, beside: values[beside] + 1}) is None


def test_products_that_the_points_do_not_determine_leave_no_fit() -> None:
    sizes = {"N": (1, 2, 3, 5, 7, 11, 13), "d": (1, 2, 4, 8, 16, 32)}
    assert fitted("(N^4 + N^3 + N^2 + N + 1)*(d^3 + d^2 + d + 1)", sizes) is None
    assert fitted("(N^4 + N^3 + N^2 + N + 1)*d", sizes) is not None

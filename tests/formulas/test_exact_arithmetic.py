"""Powers, roots and logarithms to the last bit, and the first values beyond their bounds."""

import math
from fractions import Fraction

import pytest

from pytest_attnmem.formulas.exact_arithmetic import MAX_BITS, bounded, log2, power

LARGE = "is too large to be a number of bytes"
FINE = "is too fine a fraction to be a number of bytes"


def odd(value: Fraction) -> Fraction:
    """Returns an irrational value rounded to odd: cut to 64 fractional bits, the last bit set."""
    return Fraction(math.floor(value * 2**64) | 1, 2**64)


def test_numbers_are_bounded_by_their_bits() -> None:
    largest = 2**MAX_BITS - 1
    assert bounded(largest) == largest
    assert bounded(-largest) == -largest
    assert bounded(Fraction(1, largest)) == Fraction(1, largest)
    for value, text in (
        (largest + 1, LARGE),
        (-largest - 1, LARGE),
        (Fraction(largest * largest, 2), LARGE),
        (Fraction(1, largest + 1), FINE),
        (Fraction(largest + 2, largest + 1), FINE),
    ):
        with pytest.raises(OverflowError, match=f"^{text}$"):
            bounded(value)


@pytest.mark.parametrize("base", [2**8, 2**9 - 1])
def test_a_power_is_refused_from_the_first_that_is_certainly_too_large(base: int) -> None:
    assert power(Fraction(base), Fraction(63)) == base**63
    assert power(Fraction(1, base), Fraction(63)) == Fraction(1, base**63)
    with pytest.raises(OverflowError, match=f"^{LARGE}$"):
        power(Fraction(base), Fraction(64))
    with pytest.raises(OverflowError, match=f"^{FINE}$"):
        power(Fraction(1, base), Fraction(64))


@pytest.mark.parametrize(
    ("value", "degree"), [(2, 2), (Fraction(1, 2), 2), (Fraction(7, 5), 3), (10, 3), (3, 64)]
)
def test_a_root_is_cut_to_64_bits_and_its_last_bit_set(value: int | Fraction, degree: int) -> None:
    root = power(Fraction(value), Fraction(1, degree))
    assert root.denominator == 2**64
    assert root.numerator % 2 == 1
    scaled = value * 2 ** (64 * degree)
    assert any(
        cut**degree <= scaled < (cut + 1) ** degree for cut in (root.numerator - 1, root.numerator)
    )


def test_both_last_bits_of_a_root_become_one() -> None:
    """The square root of 2 ends in an even bit, and that of 3 in an odd one."""
    roots = [math.isqrt(number << 128) for number in (2, 3)]
    assert {root % 2 for root in roots} == {0, 1}
    for number, root in zip((2, 3), roots, strict=True):
        assert power(Fraction(number), Fraction(1, 2)) == Fraction(root | 1, 2**64)


@pytest.mark.parametrize("top", range(3, 40, 2))
def test_a_logarithm_is_cut_to_64_bits_and_its_last_bit_set(top: int) -> None:
    def artanh(x: Fraction) -> Fraction:
        return sum((x ** (2 * k + 1) / (2 * k + 1) for k in range(120)), Fraction())

    whole = top.bit_length() - 1
    mantissa = Fraction(top, 2**whole)
    # ln(x) is twice artanh((x - 1) / (x + 1)), and the terms left out are below 2**-300.
    expected = whole + artanh((mantissa - 1) / (mantissa + 1)) / artanh(Fraction(1, 3))
    assert log2(Fraction(top)) == odd(expected)
    assert log2(Fraction(top, 2**100)) == odd(expected - 100)

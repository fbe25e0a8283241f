"""Powers, roots and logarithms of rationals, bounded in size and without floating point.

The text of every ArithmeticError raised here is a predicate, such as "divides by zero"; the caller
adds the subject.

An irrational result is rounded to odd: cut to 64 fractional bits with the last bit set. The error
is less than 2**-63, and the result is never a whole number, so its floor, its ceiling and its order
against whole numbers are those of the true value.
"""

from fractions import Fraction
from typing import Final

MAX_BITS: Final = 512
"""Numerators and denominators are below 2 to this power."""

MAX_EXPONENT: Final = 64
"""The largest numerator and denominator of an exponent."""

_FRACTION_BITS: Final = 64
_WORKING_BITS: Final = 192  # squaring doubles the error: 64 squarings leave 128 - 2 good bits


def bounded(value: int | Fraction) -> int | Fraction:
    """Returns *value*; raises OverflowError if it has more than MAX_BITS bits."""
    if not (abs(value.numerator) | value.denominator) >> MAX_BITS:
        return value
    if abs(value.numerator) >= value.denominator << MAX_BITS:
        raise OverflowError("is too large to be a number of bytes")
    raise OverflowError("is too fine a fraction to be a number of bytes")


def divide(dividend: Fraction, divisor: Fraction) -> Fraction:
    """Returns the exact quotient; raises ZeroDivisionError."""
    if divisor == 0:
        raise ZeroDivisionError("divides by zero")
    return dividend / divisor


def power(base: Fraction, exponent: Fraction) -> Fraction:
    """Returns base**exponent; an exponent p/q takes the real q-th root.

    A rational result is exact. Raises ArithmeticError, before it computes anything large, if the
    result is too large or undefined or the exponent is out of bounds.
    """
    if exponent < 0:
        if base == 0:
            raise ZeroDivisionError("divides by zero")
        base, exponent = 1 / base, -exponent
    times, degree = exponent.numerator, exponent.denominator
    # An n-bit integer is at least 2**(n - 1).
    if (base.numerator.bit_length() - 1) * times >= MAX_BITS * degree:
        raise OverflowError("is too large to be a number of bytes")
    if (base.denominator.bit_length() - 1) * times >= MAX_BITS * degree:
        raise OverflowError("is too fine a fraction to be a number of bytes")
    if max(times, degree) > MAX_EXPONENT:
        raise ArithmeticError(
            f"has an exponent other than -{MAX_EXPONENT} to {MAX_EXPONENT} "
            f"or a fraction of such numbers"
        )
    if degree == 1:
        return base**times
    if base < 0:
        raise ArithmeticError("takes a root of a negative number")
    return _root(base**times, degree)


def log2(value: Fraction) -> Fraction:
    """Returns the binary logarithm, exact for powers of two; raises ArithmeticError if <= 0."""
    if value <= 0:
        raise ArithmeticError("takes the logarithm of a number that is not positive")
    top, bottom = value.numerator, value.denominator
    whole = top.bit_length() - bottom.bit_length()
    if value < Fraction(2) ** whole:
        whole -= 1
    mantissa = value / Fraction(2) ** whole
    if mantissa == 1:
        return Fraction(whole)
    # Squaring doubles the logarithm, which moves its next bit in front of the point.
    bits = whole
    scaled = int(mantissa * 2**_WORKING_BITS)
    for _ in range(_FRACTION_BITS):
        scaled = scaled * scaled >> _WORKING_BITS
        bit = scaled >> (_WORKING_BITS + 1)
        scaled >>= bit
        bits = bits * 2 + bit
    return Fraction(bits | 1, 2**_FRACTION_BITS)


def _root(value: Fraction, degree: int) -> Fraction:
    top, bottom = value.numerator, value.denominator
    root = Fraction(_whole_root(top, degree), _whole_root(bottom, degree))
    if root**degree == value:
        return root
    scaled = _whole_root((top << _FRACTION_BITS * degree) // bottom, degree)
    return Fraction(scaled | 1, 2**_FRACTION_BITS)


def _whole_root(number: int, degree: int) -> int:
    """Returns the largest integer whose *degree*-th power is at most *number*."""
    if number == 0:
        return 0
    # Newton's iteration falls monotonically to the root from any guess above it.
    guess = 1 << -(-number.bit_length() // degree)
    while True:
        better = ((degree - 1) * guess + number // guess ** (degree - 1)) // degree
        if better >= guess:
            return guess
        guess = better

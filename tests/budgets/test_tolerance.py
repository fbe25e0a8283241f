"""Tolerances: accepted and refused texts, and the bytes that they allow."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.budgets.tolerance import NONE, Tolerance, parse_tolerance
from pytest_attnmem.errors import BudgetError
from pytest_attnmem.units import shown

ACCEPTED = "write a fraction (0.05), a percentage ('5%'), a size ('1 MiB') or both ('2%+1MiB')"
MIB = 1024**2

shares = st.builds(Fraction, st.integers(0, 10**9), st.sampled_from([100, 10**4, 10**8]))
tolerances = st.builds(Tolerance, shares, st.integers(0, 2**50))


@pytest.mark.parametrize(
    ("written", "share", "nbytes"),
    [
        (0, 0, 0),
        (0.0, 0, 0),
        (0.05, Fraction(1, 20), 0),
        (0.1, Fraction(1, 10), 0),  # not the nearest binary fraction
        (1e-9, Fraction(1, 10**9), 0),
        (np.float64(0.05), Fraction(1, 20), 0),
        ("0", 0, 0),
        ("5%", Fraction(1, 20), 0),
        (" 2.5 % ", Fraction(1, 40), 0),
        ("150%", Fraction(3, 2), 0),
        ("0.05", Fraction(1, 20), 0),
        (".05", Fraction(1, 20), 0),
        ("1 MiB", 0, MIB),
        ("512 B", 0, 512),
        ("2%+1MiB", Fraction(1, 50), MIB),
        ("1 MiB + 2%", Fraction(1, 50), MIB),
        (Tolerance(Fraction(1, 3), 7), Fraction(1, 3), 7),
    ],
    ids=str,
)
def test_parse(written: object, share: Fraction, nbytes: int) -> None:
    assert parse_tolerance(written) == Tolerance(Fraction(share), nbytes)


@pytest.mark.parametrize(
    "written",
    [
        *(-0.1, -1, 10**15, 10**5000, True, False, None, [], float("nan"), float("inf")),
        *("", "%", "-5%", "5%+", "+1MiB", "64 MB", "a lot", "5%%", "5\n%\n%", "٥%"),
        *("5%".rjust(65), "5" * 10**6),
    ],
    ids=lambda written: shown(written, 20),
)
def test_what_is_no_tolerance_is_refused(written: object) -> None:
    refused(written, f"; {ACCEPTED}")


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        (1, "1 has no unit; write '1%' or '1 B'"),
        (5, "5 has no unit; write '5%' or '5 B'"),
        (1024, "1024 has no unit; write '1024%' or '1024 B'"),
        (5.0, "5 has no unit; write '5%' or '5 B'"),
        (1.5, "1.5 has no unit; write '1.5%'"),
        ("5", "5 has no unit; write '5%' or '5 B'"),
        ("1.5", "1.5 has no unit; write '1.5%'"),
        ("2%+1024", "1024 has no unit; write '1024%' or '1024 B'"),
        *(
            (text, f"it has two shares or two sizes; {ACCEPTED}")
            for text in ("5%+3%", "5%+0.03", "1MiB+1KiB", "2%+1MiB+1MiB")
        ),
    ],
    ids=repr,
)
def test_what_is_missing_or_too_much_is_told(written: object, hint: str) -> None:
    refused(written, f": {hint}")


def refused(written: object, why: str) -> None:
    with pytest.raises(BudgetError) as error:
        parse_tolerance(written)
    assert str(error.value) == f"cannot read tolerance {shown(written)}{why}"


def test_text_has_at_most_64_characters() -> None:
    assert parse_tolerance("5%".rjust(64)) == Tolerance(Fraction(1, 20))


@pytest.mark.parametrize(
    ("tolerance", "limit", "allowance"),
    [
        (NONE, 1000, 0),
        (Tolerance(Fraction(1, 20)), 1000, 50),
        (Tolerance(Fraction(1, 20)), 19, 0),  # whole bytes, rounded down
        (Tolerance(nbytes=64), 0, 64),
        (Tolerance(Fraction(1, 20), 64), 1000, 64),
        (Tolerance(Fraction(1, 20), 64), 2000, 100),
    ],
    ids=["none", "share", "share of little", "bytes", "bytes win", "share wins"],
)
def test_only_what_exceeds_both_is_over(tolerance: Tolerance, limit: int, allowance: int) -> None:
    assert tolerance.allowance(limit) == allowance


@pytest.mark.parametrize(
    ("tolerance", "text"),
    [
        (NONE, "0"),
        (Tolerance(Fraction(1, 20)), "5%"),
        (Tolerance(Fraction(1)), "100%"),
        (Tolerance(Fraction(1, 10**9)), "0.0000001%"),
        (Tolerance(Fraction(123456789, 10**9)), "12.3456789%"),
        (Tolerance(nbytes=MIB), "1MiB"),
        (Tolerance(Fraction(1, 50), 1536), "2%+1536B"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_text(tolerance: Tolerance, text: str) -> None:
    assert str(tolerance) == text


@given(tolerances)
def test_text_reads_back(tolerance: Tolerance) -> None:
    assert parse_tolerance(str(tolerance)) == tolerance


@given(tolerances, st.integers(0, 2**50), st.integers(0, 2**50))
def test_a_larger_limit_never_allows_less(tolerance: Tolerance, limit: int, more: int) -> None:
    assert tolerance.allowance(limit) <= tolerance.allowance(limit + more)


@given(st.one_of(st.text(max_size=70), st.floats(), st.integers()))
def test_anything_is_a_tolerance_or_refused_in_one_line(written: object) -> None:
    message = ""
    try:
        assert parse_tolerance(written).allowance(100) >= 0
    except BudgetError as refusal:
        message = str(refusal)
    assert len(message.splitlines()) <= 1

"""Sizes as text: parsing, formatting, and the messages of errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.errors import SizeError
from pytest_attnmem.units import (
    common_unit,
    excerpt,
    format_change,
    format_count,
    format_distinct,
    format_exact,
    format_in,
    format_runs,
    format_size,
    parse_size,
    shown,
)

KIB, MIB, GIB, TIB = (1024**power for power in (1, 2, 3, 4))
ACCEPTED = "write a number and one of B, KiB, MiB, GiB, TiB, as in '64 MiB'"

sizes = st.one_of(
    st.integers(0, 2**60),
    st.builds(lambda n, unit: n * unit, st.integers(0, 5000), st.sampled_from([KIB, MIB, GIB])),
)
signed = st.builds(lambda size, sign: size * sign, sizes, st.sampled_from([1, -1]))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1_024 B", 1024),
        ("512 b", 512),
        ("64 mib", 64 * MIB),
        ("64MIB", 64 * MIB),
        ("1_0.5 KiB", 10752),
        ("512 B", 512),
        ("512B", 512),
        ("1 KiB", KIB),
        ("64 MiB", 64 * MIB),
        ("64MiB", 64 * MIB),
        (" 64  MiB ", 64 * MIB),
        ("1.5 MiB", 3 * MIB // 2),
        ("1.0 B", 1),
        ("80 GiB", 80 * GIB),
        ("2 TiB", 2 * TIB),
        ("0.0009765625 KiB", 1),
        # A float would be 2**60.
        ("1152921504606846977 B", 2**60 + 1),
    ],
)
def test_parse_size(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("64 MB", "write '64 MiB' (1 MiB = 1024**2 bytes); MB is used for both 10**6 and 2**20"),
        ("1.5 kB", "write '1.5 KiB' (1 KiB = 1024 bytes); kB is used for both 10**3 and 2**10"),
        ("4KB", "write '4 KiB' (1 KiB = 1024 bytes); KB is used for both 10**3 and 2**10"),
        ("2 gb", "write '2 GiB' (1 GiB = 1024**3 bytes); gb is used for both 10**9 and 2**30"),
        ("1 TB", "write '1 TiB' (1 TiB = 1024**4 bytes); TB is used for both 10**12 and 2**40"),
        ("-3 KiB", f"a size cannot be negative; {ACCEPTED}"),
        ("-3", f"a size cannot be negative; {ACCEPTED}"),
        ("64", "it has no unit; write '64 B' or '64 MiB'"),
        ("1_000_000", "it has no unit; write '1_000_000 B' or '1_000_000 MiB'"),
        ("1.5", "it has no unit; write '1.5 MiB'"),
        ("1e9", "a size has no exponent; write '1000000000 B'"),
        ("1.5e3 mib", "a size has no exponent; write '1500 MiB'"),
        ("1e9 MB", f"a size has no exponent; {ACCEPTED}"),
        ("1e-3 KiB", f"a size has no exponent; {ACCEPTED}"),
        ("1e99 B", f"a size has no exponent; {ACCEPTED}"),
        ("0.3 KiB", "it is not a whole number of bytes; round it, as in '307 B'"),
        ("0.5 B", "it is not a whole number of bytes; round it, as in '0 B'"),
    ],
)
def test_refusal_says_what_to_write_instead(text: str, reason: str) -> None:
    with pytest.raises(SizeError) as refusal:
        parse_size(text)
    assert str(refusal.value) == f"cannot parse size '{text}': {reason}"


@pytest.mark.parametrize(
    "text",
    [
        *("", "MiB", "10 GiBs", "64 M", "64 MiB 2", "nan", "inf B", "1__000 B", "_1 B", "1_ B"),
        *("1,000 B", ".5 MiB", "5. MiB", "1e999 B", "+1 B", "0x10", "6٤ MiB"),
    ],
)
def test_refusal_of_other_text_says_what_is_accepted(text: str) -> None:
    with pytest.raises(SizeError) as refusal:
        parse_size(text)
    assert str(refusal.value) == f"cannot parse size '{text}': {ACCEPTED}"


def test_refusal_is_one_short_line() -> None:
    with pytest.raises(SizeError) as refusal:
        parse_size("64\nMiB")
    assert str(refusal.value) == rf"cannot parse size '64\nMiB': {ACCEPTED}"
    with pytest.raises(SizeError) as refusal:
        parse_size("1" * 10**6)
    shown = "1" * 61 + "..."
    assert str(refusal.value) == (
        f"cannot parse size '{shown}': it is longer than 64 characters; {ACCEPTED}"
    )


@given(st.text(max_size=80))
def test_any_text_is_a_size_or_refused_in_one_line(text: str) -> None:
    message = ""
    try:
        assert parse_size(text) >= 0
    except SizeError as refusal:
        message = str(refusal)
    assert len(message.splitlines()) <= 1


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024 + 51, "1.0 KiB"),
        (1024 + 52, "1.1 KiB"),
        (64 * MIB, "64.0 MiB"),
        (153 * MIB // 2, "76.5 MiB"),
        (MIB - 52, "1023.9 KiB"),
        (MIB - 51, "1.0 MiB"),
        (MIB - 1, "1.0 MiB"),
        (GIB - 1, "1.0 GiB"),
        (TIB - 1, "1.0 TiB"),
        (5000 * TIB, "5000.0 TiB"),
        (-512, "-512 B"),
        (1 - MIB, "-1.0 MiB"),
    ],
)
def test_format_size(size: int, text: str) -> None:
    assert format_size(size) == text


@given(signed)
def test_format_size_is_within_a_twentieth_of_its_unit(size: int) -> None:
    number, unit = format_size(size).split()
    factor = parse_size(f"1 {unit}")
    sign, digits = (-1, number[1:]) if number.startswith("-") else (1, number)
    printed = sign * int(digits.replace(".", "")) * factor
    if unit == "B":
        assert printed == size
    else:
        assert 20 * abs(printed - 10 * size) <= 10 * factor
        assert unit == "TiB" or 10 <= int(digits.replace(".", "")) < 10240


@given(sizes)
def test_format_exact_is_the_inverse_of_parse_size(size: int) -> None:
    assert parse_size(format_exact(size)) == size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1536, "1536 B"),
        (3 * MIB // 2, "1536 KiB"),
        (64 * MIB, "64 MiB"),
        (1024 * MIB, "1 GiB"),
        (2048 * TIB, "2048 TiB"),
        (-MIB, "-1 MiB"),
    ],
)
def test_format_exact(size: int, text: str) -> None:
    assert format_exact(size) == text


def test_one_thing_is_in_the_singular_and_a_change_has_its_sign() -> None:
    assert [format_count(count, "test") for count in range(3)] == ["0 tests", "1 test", "2 tests"]
    changes = (14 << 20, -1536, 0)
    assert [format_change(change) for change in changes] == ["+14.0 MiB", "-1.5 KiB", "+0 B"]


def test_format_distinct_turns_exact_only_where_it_must() -> None:
    assert format_distinct(64 * MIB, 65 * MIB) == ("64.0 MiB", "65.0 MiB")
    assert format_distinct(64 * MIB, 64 * MIB) == ("64.0 MiB", "64.0 MiB")
    assert format_distinct(64 * MIB, 64 * MIB + 1) == ("67,108,864 B", "67,108,865 B")
    assert format_distinct(MIB - 1, MIB, 5) == ("1,048,575 B", "1,048,576 B", "5 B")
    assert format_distinct() == ()


@given(st.lists(st.one_of(signed, st.integers(MIB - 99, MIB + 99))))
def test_format_distinct_tells_sizes_apart(values: list[int]) -> None:
    texts = format_distinct(*values)
    assert len(texts) == len(values)
    assert len(set(texts)) == len(set(values))


@pytest.mark.parametrize(
    ("values", "unit", "column"),
    [
        ([], "B", []),
        ([0, 1023], "B", ["0", "1023"]),
        ([0, 1536, 64 * MIB], "MiB", ["0.0", "0.0", "64.0"]),
        ([MIB - 1, 5], "MiB", ["1.0", "0.0"]),
        ([-3 * GIB, 512 * MIB, -1], "GiB", ["-3.0", "0.5", "0.0"]),
    ],
)
def test_column(values: list[int], unit: str, column: list[str]) -> None:
    assert common_unit(iter(values)) == unit
    assert [format_in(value, unit) for value in values] == column


def test_format_in_refuses_other_units() -> None:
    with pytest.raises(SizeError) as refusal:
        format_in(1, "MB")
    assert str(refusal.value) == "unknown unit 'MB': use one of B, KiB, MiB, GiB, TiB"


def test_excerpt() -> None:
    assert excerpt("2*π") == "2*π"
    assert excerpt("a\tb\n\u2028\ud800") == r"a\tb\n\u2028\ud800"
    assert excerpt("a" * 65) == "a" * 61 + "..."
    assert excerpt("abcdef", 5) == "ab..."


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        ("cpu", "'cpu'"),
        ("x" * 65, f"'{'x' * 61}...'"),
        ("two\nlines", r"'two\nlines'"),
        ([0] * 99, f"[{'0, ' * 20}..."),
        (10**5000, "<int of 16610 bits>"),
        ([10**5000], "<list, its repr raised ValueError>"),
        (Rude(), "<Rude, its repr raised RuntimeError>"),
        (ValueError("two\nlines"), r"ValueError: two\nlines"),
        (ValueError(Rude()), "<ValueError, its repr raised RuntimeError>"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_an_object_of_the_users_is_shown_in_one_line(value: object, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("numbers", "text"), [([0, 7], "0, 7"), (range(8), "0-7"), ([1, 2, 5, 6, 7], "1-2, 5-7")]
)
def test_numbers_that_follow_each_other_stand_together(numbers: list[int], text: str) -> None:
    assert format_runs(numbers, "-", ", ") == text

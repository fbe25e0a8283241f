"""What a regression consists of, in the terms of two closed forms."""

import pytest

from pytest_attnmem.baseline import Entry
from pytest_attnmem.baseline_difference import difference, labels
from pytest_attnmem.measurement import Held
from pytest_attnmem.polynomial import expand

SYMBOLS = {"B": 2, "H": 8, "N": 1024, "d": 64}


def held(op: str, *shape: int, dtype: str = "float32", itemsize: int = 4) -> Held:
    nbytes = itemsize
    for size in shape:
        nbytes *= size
    return Held(nbytes, shape, dtype, op, f"attn.py:{len(op)}")


SCORES = (2, 8, 1024, 1024)
BEFORE = (held("mul", *SCORES), held("softmax", *SCORES), held("bmm", 2, 8, 1024, 64))
MASKED = held("masked_fill", *SCORES)
MASK = held("tril", 1024, 1024, dtype="bool", itemsize=1)
FORM = "8*B*H*N^2 + 4*B*H*N*d"


def entry(formula: str = FORM, known: tuple[Held, ...] = BEFORE) -> Entry:
    nbytes = int(expand(formula).value(SYMBOLS))
    return Entry(nbytes, formula, labels(known, SYMBOLS))


def told(now: str, *alive: Held, before: Entry | None = None, **sizes: int) -> str:
    sizes = sizes or SYMBOLS
    return difference(before or entry(), expand(now), sizes, alive, SYMBOLS)


def test_a_label_has_what_does_not_change_with_sizes_or_lines() -> None:
    assert labels((*BEFORE, held("pad", 7)), SYMBOLS) == (
        "mul float32 B·H·N·N",
        "softmax float32 B·H·N·N",
        "bmm float32 B·H·N·d",
        "pad float32 [7]",
    )


@pytest.mark.parametrize(
    ("now", "new", "text"),
    [
        (
            "12*B*H*N^2 + 4*B*H*N*d",
            [MASKED],
            "+4*B*H*N^2: one more float32 B·H·N·N tensor, masked_fill at attn.py:11",
        ),
        (
            "16*B*H*N^2 + 4*B*H*N*d",
            [MASKED, held("add", *SCORES)],
            "+8*B*H*N^2: two more float32 B·H·N·N tensors, masked_fill at attn.py:11, add at"
            " attn.py:3",
        ),
        (
            "12*B*H*N^2 + 4*B*H*N*d + N^2",
            [MASKED, MASK],
            "+4*B*H*N^2 + N^2: one more float32 B·H·N·N tensor, masked_fill at attn.py:11; one more"
            " bool N·N tensor, tril at attn.py:4",
        ),
        ("12*B*H*N^2 + 4*B*H*N*d", [], "+4*B*H*N^2"),  # nobody says who
        ("12*B*H*N^2 + 4*B*H*N*d", [held("pad", 7)], "+4*B*H*N^2"),
        ("9*B*H*N^2 + 4*B*H*N*d", [MASKED], "+B*H*N^2"),  # a quarter of a tensor is none
        (
            "12*B*H*N^2",
            [MASKED],
            "+4*B*H*N^2 - 4*B*H*N*d: one more float32 B·H·N·N tensor, masked_fill at attn.py:11",
        ),
        ("8*B*H*N^2 + 4*B*H*N*d + 8", [MASKED], "+8"),
        ("8*B*H*N^2", [], "-4*B*H*N*d"),
        (FORM, [MASKED], ""),
    ],
)
def test_the_difference_names_what_is_new(now: str, new: list[Held], text: str) -> None:
    assert told(now, *BEFORE[:2], *new, BEFORE[2]) == text


def test_one_of_a_kind_that_was_there_before_is_told_apart_by_number() -> None:
    again = held("mul", *SCORES)
    assert told("12*B*H*N^2 + 4*B*H*N*d", *BEFORE, again) == (
        "+4*B*H*N^2: one more float32 B·H·N·N tensor, mul at attn.py:3"
    )


def test_symbols_that_were_not_varied_are_in_the_coefficients() -> None:
    before = Entry(entry().nbytes, "128*N^2 + 4096*N", labels(BEFORE, SYMBOLS))
    assert told("192*N^2 + 4096*N", *BEFORE, MASKED, before=before) == (
        "+64*N^2: one more float32 B·H·N·N tensor, masked_fill at attn.py:11"
    )


@pytest.mark.parametrize(
    ("formula", "now", "text"),
    [
        (FORM, "24*H*N^2 + 8*H*N*d", "+8*H*N^2: one more"),  # B=2 did not fit any more
        ("16*H*N^2 + 8*H*N*d", "12*B*H*N^2 + 4*B*H*N*d", "+8*H*N^2: one more"),
        ("128*N^2 + 4096*N", "128*N^2 + 4096*N + 4*B*N", "+4*B*N"),  # a term that B came in with
    ],
)
def test_a_symbol_that_only_one_could_be_varied_in_has_its_size(
    formula: str, now: str, text: str
) -> None:
    assert told(now, *BEFORE, MASKED, before=entry(formula)).startswith(text)


@pytest.mark.parametrize(
    "formula", ["", "nonsense(", "N^(1/2)", "8*B*H*N^2", "8*B*H*N^2 + Z", "N/0"]
)
def test_a_form_that_is_not_of_these_bytes_says_nothing(formula: str) -> None:
    before = Entry(entry().nbytes, formula)
    assert told("12*B*H*N^2 + 4*B*H*N*d", MASKED, before=before) == ""

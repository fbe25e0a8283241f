"""The text of a regression: the difference of two closed forms and of two sets of tensors."""

from dataclasses import replace

import pytest

from pytest_attnmem.baselines.entries import Entry
from pytest_attnmem.baselines.regression_text import Difference, difference
from pytest_attnmem.formulas.polynomial import expand
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.tensor_kinds import labels
from pytest_attnmem.measurement.traced_tensors import TracedTensors

SYMBOLS = {"B": 2, "H": 8, "N": 1024, "d": 64}


def held(op: str, *dims: str, dtype: str = "float32", itemsize: int = 4) -> Held:
    shape = tuple(int(expand(dim).value(SYMBOLS)) for dim in dims)
    nbytes = itemsize
    for size in shape:
        nbytes *= size
    return Held(nbytes, shape, dtype, op, f"attn.py:{len(op)}", "attention", dims=dims)


SCORES = ("B", "H", "N", "N")
BEFORE = (held("mul", *SCORES), held("softmax", *SCORES), held("bmm", "B*H", "N", "d"))
MASKED = held("masked_fill", *SCORES)
MASK = held("tril", "N", "N", dtype="bool", itemsize=1)
FORM = "8*B*H*N^2 + 4*B*H*N*d"


def entry(formula: str = FORM, known: tuple[Held, ...] = BEFORE) -> Entry:
    return Entry(sum(one.nbytes for one in known), formula, labels(known))


def told(now: str, *alive: Held, before: Entry | None = None, extra: int = 0) -> Difference:
    nbytes = sum(one.nbytes for one in alive) + extra
    form = expand(now) if now else None
    return difference(before or entry(), nbytes, form, SYMBOLS, alive, SYMBOLS)


MASKED_TOO = "12*B*H*N^2 + 4*B*H*N*d"
ONE_MORE = "one more float32 [B, H, N, N], masked_fill at attn.py:11"


@pytest.mark.parametrize(
    ("now", "new", "text"),
    [
        (MASKED_TOO, [MASKED], f"+4*B*H*N^2: {ONE_MORE}"),
        (
            "16*B*H*N^2 + 4*B*H*N*d",
            [MASKED, held("add", *SCORES)],
            "+8*B*H*N^2: two more float32 [B, H, N, N], masked_fill at attn.py:11, add at"
            " attn.py:3",
        ),
        (
            MASKED_TOO + " + N^2",
            [MASKED, MASK],
            f"+4*B*H*N^2 + N^2: {ONE_MORE}; one more bool [N, N], tril at attn.py:4",
        ),
        ("", [MASKED], f"+64.0 MiB: {ONE_MORE}"),
        (FORM, [], ""),
    ],
)
def test_the_difference_names_the_new_tensors(now: str, new: list[Held], text: str) -> None:
    assert told(now, *BEFORE, *new) == Difference(text, tuple(new))


def test_tensors_that_do_not_add_up_to_the_growth_are_not_named() -> None:
    assert told(MASKED_TOO, *BEFORE, MASK, extra=MASKED.nbytes) == Difference("+4*B*H*N^2")
    assert told("", *BEFORE, MASK, extra=MASKED.nbytes) == Difference("")


@pytest.mark.parametrize(("extra", "way"), [(16, "more"), (-16, "less")])
def test_a_few_bytes_outside_tensors_are_listed(extra: int, way: str) -> None:
    outside = f"+64.0 MiB: {ONE_MORE}; and 16 B {way} outside tensors"
    assert told("", *BEFORE, MASKED, extra=extra).text == outside


@pytest.mark.parametrize(
    ("now", "which"),
    [
        ((*BEFORE, BEFORE[0]), ", mul at attn.py:3"),
        # At two lines, or in the place of another, it could be either.
        ((*BEFORE, replace(BEFORE[0], where="attn.py:9")), ""),
        ((held("div", *SCORES), MASKED, *BEFORE[1:]), ""),
    ],
)
def test_one_more_of_a_kind_is_named_if_it_can_be_told(now: tuple[Held, ...], which: str) -> None:
    found = told(MASKED_TOO, *now)
    assert found.text == f"+4*B*H*N^2: one more float32 [B, H, N, N]{which}"
    assert bool(found.more) is bool(which)


def test_lines_that_move_change_nothing() -> None:
    moved = tuple(replace(one, where="attn.py:70") for one in BEFORE)
    assert told(MASKED_TOO, *moved, MASKED).text == f"+4*B*H*N^2: {ONE_MORE}"


def test_removed_tensors_are_listed_too() -> None:
    wider = held("to_copy", *SCORES, dtype="float64", itemsize=8)
    assert told("", wider, *BEFORE[1:]).text == (
        "+64.0 MiB: one more float64 [B, H, N, N], to_copy at attn.py:7; one less float32"
        " [B, H, N, N]"
    )


def test_a_long_list_is_cut() -> None:
    new = [held("cat", "N", str(width)) for width in (9, 8, 7, 6, 5)]
    assert told("", *BEFORE, *new).text == (
        "+140.0 KiB: one more float32 [N, 9], cat at attn.py:3; one more float32 [N, 8], cat at"
        " attn.py:3; one more float32 [N, 7], cat at attn.py:3; and 2 other shapes"
    )


def test_parameters_and_scratch_are_called_so() -> None:
    weights = [replace(held("empty", "64", "64"), role="parameter")] * 2
    block = Held.of_scratch(512, "sort", "attn.py:8", "attention")
    assert told("", *BEFORE, *weights, block).text == (
        "+32.5 KiB: two more float32 [64, 64], parameters; one more block of 512 B, sort (scratch)"
        " at attn.py:8"
    )


def test_a_storage_that_is_larger_than_its_tensor_is_a_separate_form() -> None:
    view = replace(MASK, nbytes=999)
    assert labels([view]) == ("1 × bool [N, N] of 999 B tril, attn.py in attention",)
    assert told("", *BEFORE, view, before=entry(known=(*BEFORE, view))).text == ""


@pytest.mark.parametrize(
    "known",
    [
        ("mul float32 B·H·N·N",),
        ("1 × float32 [Z] mul, attn.py",),
        ("1 × float32 [1/2] mul, attn.py",),
        ("1 × odd16 [N] mul, attn.py",),
        (),
    ],
)
def test_an_entry_that_cannot_be_counted_names_nothing(known: tuple[str, ...]) -> None:
    before = replace(entry(), held=known)
    assert told(MASKED_TOO, *BEFORE, MASKED, before=before) == Difference("+4*B*H*N^2")
    other = replace(before, formula="16*H*N^2 + 8*H*N*d")  # it may have missed a symbol
    assert told(MASKED_TOO, *BEFORE, MASKED, before=other) == Difference("")


@pytest.mark.parametrize(
    ("formula", "now", "text"),
    [
        (FORM, "24*H*N^2 + 8*H*N*d", "+8*H*N^2: one more"),  # B=2 did not fit any more
        ("16*H*N^2 + 8*H*N*d", MASKED_TOO, "+8*H*N^2: one more"),
    ],
)
def test_a_symbol_that_only_one_could_be_varied_in_has_its_size(
    formula: str, now: str, text: str
) -> None:
    assert told(now, *BEFORE, MASKED, before=entry(formula)).text.startswith(text)


@pytest.mark.parametrize(
    "formula", ["", "nonsense(", "N^(1/2)", "8*B*H*N^2", "8*B*H*N^2 + Z", "N/0"]
)
def test_a_form_that_is_not_of_these_bytes_says_nothing(formula: str) -> None:
    before = replace(entry(formula), held=())
    assert told(MASKED_TOO, *BEFORE, MASKED, before=before) == Difference("")


def test_a_list_without_anything_new_says_so() -> None:
    nothing = "nothing in the list is new; the baseline has the same tensors"
    assert told("", *BEFORE, extra=4096) == Difference(f"+4.0 KiB: {nothing}")
    assert told(FORM + " + 4096", *BEFORE, extra=4096).text == f"+4096: {nothing}"


GRADIENT, GRAND = held("softmax_backward", *SCORES), held("mul_backward", "4", *SCORES)


def moved(*new: Held) -> Difference:
    """A run whose peak is in the backward pass; ``new`` are more tensors of the forward pass."""
    made = [*BEFORE[:2], *new, BEFORE[2], GRADIENT, GRAND]
    last = len(made) - 1
    # The result of the forward pass is freed before the backward pass makes anything.
    freed = {len(new) + 2: last - 1, 0: last - 1}
    alive = [number for number in range(len(made)) if number not in freed]
    traced = TracedTensors(tuple(enumerate(made)), tuple(alive), (), freed)
    at_peak = [made[number] for number in alive]
    nbytes = sum(one.nbytes for one in at_peak)
    return difference(entry(), nbytes, None, SYMBOLS, at_peak, SYMBOLS, traced)


def test_a_peak_that_moved_is_compared_at_the_moment_of_the_baseline() -> None:
    assert moved(MASKED) == Difference(
        "the peak is at another moment now, mul_backward at attn.py:12; at that of the baseline"
        f" +64.0 MiB: {ONE_MORE}"
    )
    assert moved().text.endswith("; at the moment of the baseline nothing changed")

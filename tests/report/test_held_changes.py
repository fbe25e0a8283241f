"""The tensors that are more or fewer from one peak to another."""

from dataclasses import replace

import pytest

from pytest_attnmem.measurement.held import Held
from pytest_attnmem.report.held_changes import (
    HeldChange,
    held_changes,
    lines,
    term,
    to_dict,
)

SCORES = Held(64, (4, 4), "float32", "mm", "attn.py:7", "f")
MASK = Held(16, (4, 4), "bool", "triu", "attn.py:3", "f")


def moved(held: Held, line: int) -> Held:
    return Held(held.nbytes, held.shape, held.dtype, held.op, f"attn.py:{line}", held.function)


def test_an_edit_above_a_line_changes_nothing():
    assert held_changes([SCORES, MASK], [moved(MASK, 4), moved(SCORES, 8)]) == []


def test_growth_comes_first_and_what_is_gone_last():
    more = Held(256, (8, 8), "float32", "mm", "attn.py:9", "f")
    changes = held_changes([SCORES, MASK], [SCORES, moved(SCORES, 8), more])
    assert [(one.delta, one.old_count, one.new_count) for one in changes] == [
        (256, 0, 1),
        (64, 1, 2),
        (-16, 1, 0),
    ]
    assert [*lines(changes, 2)] == [
        "+256 B  [8, 8] float32 mm  attn.py:9 in f",
        " +64 B  [4, 4] float32 mm  attn.py:7 in f",
        "and 1 more, -16 B together",
    ]
    assert to_dict(changes[2]) == {
        **{"delta_bytes": -16, "old_count": 1, "new_count": 0, "shape": [4, 4], "dims": []},
        **{"dtype": "bool", "op": "triu", "where": "attn.py:3", "function": "f", "role": ""},
    }


@pytest.mark.parametrize(
    ("dims", "count", "expected"),
    [
        (("B", "H", "N", "N"), 1, "+4*B*H*N^2 masked_fill attn.py:14"),
        (("B", "H", "N", "N"), 3, "+12*B*H*N^2 masked_fill attn.py:14"),
        (("B", "H", "64", "N + 64"), -1, "-256*B*H*N - 16384*B*H masked_fill attn.py:14"),
        (("2", "4", "64", "128"), 1, "+256.0 KiB masked_fill attn.py:14"),
        ((), 2, "+512.0 KiB masked_fill attn.py:14"),
    ],
)
def test_a_change_is_a_term_in_the_symbols_that_are_proved(dims, count, expected):
    held = Held(2**18, (2, 4, 64, 128), "float32", "masked_fill", "attn.py:14", dims=dims)
    change = HeldChange(held, max(-count, 0), max(count, 0), count * held.nbytes)
    assert term(change) == expected
    role = replace(held, role="parameter")
    assert term(HeldChange(role, 0, 1, 5)).endswith(" parameters")

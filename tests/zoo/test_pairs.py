"""The pairs themselves: equal values, and budgets that say where they differ."""

import pytest
import torch
from zoo.endings import Ending, problems
from zoo.pair import pairs

from pytest_attnmem.measurement.qkv_inputs import qkv

PAIRS = pairs()
each = pytest.mark.parametrize("one", PAIRS.values(), ids=PAIRS)


def test_all_mechanisms_have_a_pair():
    assert len(PAIRS) >= 30
    assert {one.kind for one in PAIRS.values()} == {*range(1, 26)}


@each
def test_both_variants_give_the_same(one):
    def values(*, bad):
        torch.manual_seed(0)
        given = {**one.sizes, "qkv": qkv, "keep": []}
        return one.program(**{name: given[name] for name in one.arguments}, bad=bad)

    torch.testing.assert_close(values(bad=True), values(bad=False))


@each
def test_two_gates_and_a_guilty_line_at_least(one):
    assert len(one.caught) >= 2
    assert one.guilty


SAID = """\
peak 3.0 KiB exceeds budget 2.0 KiB (1.5x) on cpu
  grew      +N^2: one more bool [N, N], {op} at {where}
    1.0 KiB  [32, 32] bool  {op}  {where} in mask_repeated"""


def told(**ends):
    """The problems of one pair at gates that ended so."""
    one = PAIRS["mask_repeated"]
    (line,) = one.guilty
    good = Ending("within", "", "")
    text = SAID.format(op=ends.get("op", "repeat"), where=ends.get("where", line))
    bad = Ending(ends.get("bad", "over"), "peak 3.0 KiB …", text)
    return problems(
        one,
        {
            (one.name, gate, variant): bad if variant == "bad" else good
            for gate in one.gates
            for variant in ("good", "bad")
        },
    )


def test_a_wrong_verdict_would_be_seen():
    assert told() == []
    assert told(bad="within") == [
        f"{gate}, bad: within, not over: peak 3.0 KiB …"
        for gate in ("formula", "contract", "baseline")
    ]


def test_a_wrong_word_would_be_seen():
    (line,) = PAIRS["mask_repeated"].guilty
    assert told(op="clone")[0] == f"formula: no line has repeat at {line}"
    blamed = "'grew      +N^2: one more bool [N, N], repeat at x.py:1'"
    assert told(where="x.py:1")[:2] == [
        f"formula: no line has repeat at {line}",
        f"formula: x.py:1 in {blamed}",
    ]

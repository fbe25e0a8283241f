"""The topic of a failure, from what was held."""

from dataclasses import replace

import pytest

from pytest_attnmem.budgets.budget import Budget, Obstacle
from pytest_attnmem.budgets.failure_text import Topic, topic
from pytest_attnmem.budgets.verdict import Outcome, Verdict, judge, not_enforced
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.measurement import Measurement

SCORES = Held(4096, (1, 1, 32, 32), "float32", "softmax", "a.py:1", dims=("B", "H", "N", "M"))
SMALL = Held(64, (16,), "float32", "add", "a.py:2")
KEYS = Held(4096, (1, 1, 64, 16), "float32", "add", "a.py:3")


@pytest.fixture
def told(seen: Measurement):
    def topic_of(*held: Held, metric: str = "peak") -> Topic:
        return topic(judge(replace(seen, held=held, retained_bytes=9), Budget(1, metric=metric)))

    return topic_of


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ((), Topic.PARTS),
        ((SCORES, SMALL), Topic.SCORES),
        ((replace(SCORES, dims=()),), Topic.SCORES),
        ((replace(SCORES, dims=("B", "H", "N", "d")),), Topic.TEMPORARIES),
        ((replace(SCORES, dims=(), shape=(64, 64)),), Topic.TEMPORARIES),
        ((SCORES, replace(SCORES, op="mul"), replace(SCORES, op="div")), Topic.TEMPORARIES),
        ((SCORES, replace(SCORES, dtype="bool", nbytes=1024)), Topic.MASK),
        ((SCORES, replace(SMALL, dtype="bool")), Topic.SCORES),
        ((replace(SCORES, op="clone"),), Topic.COPY),
        ((replace(KEYS, op="to_copy"),), Topic.DTYPE),
        ((KEYS,), Topic.TEMPORARIES),
        ((KEYS, SMALL), Topic.TEMPORARIES),
        ((replace(KEYS, role="saved"),), Topic.SAVED),
        ((replace(KEYS, holder="Loop.outputs[3]"),), Topic.RETAINED),
        ((replace(KEYS, op="cat", holder="Cache.k"),), Topic.RETAINED),
        ((replace(SCORES, holder="the local kept[0] of run"),), Topic.SCORES),
        ((replace(KEYS, op="to_copy", holder="model.weight", role="parameter"),), Topic.DTYPE),
        ((replace(KEYS, holder="saved by Scatter.ctx.kept[0]"),), Topic.SAVED),
        ((replace(KEYS, module="0.mlp"), replace(KEYS, module="1.mlp")), Topic.SAVED),
        ((Held.of_scratch(4096, "mm", "a.py:4"), SMALL), Topic.SCRATCH),
    ],
)
def test_the_largest_tensors_decide(told, held: tuple[Held, ...], expected: Topic) -> None:
    assert told(*held) is expected


@pytest.mark.parametrize(
    ("op", "limit", "expected"),
    [
        ("clone", 4200, Topic.COPY),
        ("clone", 4100, Topic.TEMPORARIES),
        ("mul", 4200, Topic.TEMPORARIES),
        ("clone", 4000, Topic.TEMPORARIES),
    ],
)
def test_smaller_copies_are_the_cause_if_they_alone_are_the_excess(
    seen: Measurement, op: str, limit: int, expected: Topic
) -> None:
    held = (KEYS, *[replace(SMALL, op=op)] * 2)
    measured = replace(seen, held=held, peak_bytes=sum(one.nbytes for one in held) + 64)
    assert topic(judge(measured, Budget(limit))) is expected


@pytest.mark.parametrize(
    ("limit", "others", "expected"),
    [
        (8100, 2, Topic.SCRATCH),
        (7900, 2, Topic.TEMPORARIES),
        (None, 1, Topic.SCRATCH),
        (None, 2, Topic.TEMPORARIES),
    ],
)
def test_scratch_is_the_cause_if_it_is_the_excess_or_half_of_a_growth(
    seen: Measurement, limit: int | None, others: int, expected: Topic
) -> None:
    tensors = [replace(KEYS, nbytes=4000, op=op) for op in ("add", "mul")[:others]]
    held = (Held.of_scratch(4096, "sum", "a.py:4"), *tensors)
    measured = replace(seen, held=held, peak_bytes=4096 + 4000 * others)
    verdict = judge(measured, Budget(limit))
    assert topic(replace(verdict, outcome=Outcome.OVER)) is expected


def test_what_is_left_is_kept_or_saved(told) -> None:
    assert told(SCORES, metric="retained") is Topic.RETAINED
    saved = replace(KEYS, holder="saved by MulBackward0 in the graph of Loop.losses[0]")
    assert told(SMALL, saved, metric="retained") is Topic.SAVED


def test_what_ended_or_was_not_measured(seen: Measurement) -> None:
    starved = replace(seen, held=(SCORES,), out_of_memory="tried to allocate 9 B")
    assert topic(judge(starved, Budget(1))) is Topic.OUT_OF_MEMORY
    unmeasured = not_enforced("nothing was allocated", Obstacle.NOTHING_ALLOCATED)
    assert topic(unmeasured) is Topic.NOT_ENFORCED


def test_facts_of_the_verdict_come_before_the_tensors(seen: Measurement) -> None:
    measured = replace(seen, held=(SCORES, SMALL))
    over = judge(measured, Budget(1))
    assert topic(replace(over, leak=True)) is Topic.RETAINED
    # The tensors that a baseline lacks come first.
    assert topic(replace(over, more=(replace(SMALL, op="clone"),))) is Topic.COPY
    # An improvement has no culprit; a regression below an exact budget has one.
    below, exact = replace(measured, peak_bytes=8), Budget(9, exact=True)
    assert topic(judge(below, exact)) is Topic.PARTS
    verdict = Verdict(Outcome.OVER, "8 B over", below, exact, regression=True)
    assert topic(verdict) is Topic.SCORES

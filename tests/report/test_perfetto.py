"""Traces are valid, and have the spans and levels of their timeline."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.timeline import Allocation, Timeline
from pytest_attnmem.report.artifacts import lanes, render
from pytest_attnmem.report.record import Record

SCORES = Held(4096, (2, 512), "float32", "mm", "attn.py:3", "attention", "blocks.0", "saved")
SCRATCH = Held.of_scratch(64, "softmax", "attn.py:4", "attention")
LIVES = Timeline(
    4,
    (
        Allocation(SCORES, 0, 3),
        Allocation(SCRATCH, 1, 2),
        Allocation(Held(8, (2,), "int32", "sum", ""), 3, None),
    ),
    "the second run",
)
ROW = Record(
    "tests/test_attn.py::test_it",
    "scores",
    device="cpu",
    limit_bytes=100,
    where="tests/test_attn.py:7",
)


def events(kind: str, row: Record = ROW) -> list[dict]:
    data = json.loads(render(row, LIVES))
    return [event for event in data["traceEvents"] if event["ph"] == kind]


def test_each_life_is_an_event_with_what_is_known_of_it() -> None:
    first, second, last = events("X")
    assert first == {
        "pid": 1,
        "tid": 1,
        "ph": "X",
        "name": "4.0 KiB mm [2, 512]",
        "cat": "tensor",
        "ts": 0,
        "dur": 3,
        "args": {
            "bytes": 4096,
            "shape": "[2, 512]",
            "module": "saved by blocks.0",
            "dtype": "float32",
            "op": "mm",
            "where": "attn.py:3",
            "function": "attention",
        },
    }
    assert (second["tid"], second["name"]) == (2, "64 B softmax (scratch)")
    assert "shape" not in second["args"]
    assert (last["tid"], last["ts"], last["dur"]) == (1, 3, 1)
    assert last["args"]["died"] == "no, alive at the end"


def test_the_bytes_alive_are_a_counter_and_the_budget_another() -> None:
    counters = [(event["name"], event["ts"], event["args"]["bytes"]) for event in events("C")]
    alive = [("bytes alive", ts, n) for ts, n in enumerate((4096, 4160, 4096, 8, 8))]
    assert counters == [*alive, ("budget", 0, 100), ("budget", 4, 100)]
    (peak,) = events("i")
    assert (peak["name"], peak["ts"]) == ("peak 4.1 KiB", 1)
    other = Record("a", metric="reserved", limit_bytes=100)
    assert {event["name"] for event in events("C", other)} == {"bytes alive"}
    nothing = json.loads(render(ROW, Timeline(0, ())))
    assert [event["ph"] for event in nothing["traceEvents"]] == ["M", "C", "C"]


def test_it_says_of_which_test_it_is_and_how_it_was_seen() -> None:
    assert [event["args"]["name"] for event in events("M")] == [
        "tests/test_attn.py::test_it [scores]",
        "tensors 1",
        "tensors 2",
    ]
    assert json.loads(render(ROW, LIVES))["otherData"] == {
        "test": "tests/test_attn.py::test_it [scores]",
        "where": "tests/test_attn.py:7",
        "place": "cpu",
        "note": "the second run",
    }


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    events = draw(st.integers(1, 20))
    spans = [
        Allocation(SCORES, place, draw(st.none() | st.integers(place + 1, events)))
        for place in sorted(draw(st.lists(st.integers(0, events - 1), max_size=20)))
    ]
    return Timeline(events, tuple(spans))


@given(timelines())
def test_no_two_in_a_lane_overlap_and_there_are_as_few_lanes_as_can_be(life: Timeline) -> None:
    given_lanes = lanes(life)
    ends = dict.fromkeys(given_lanes, 0)
    alive = [0] * life.events
    for lane, span in zip(given_lanes, life.spans, strict=True):
        assert ends[lane] <= span.allocated_at
        ends[lane] = life.events if span.freed_at is None else span.freed_at
        for event in range(span.allocated_at, ends[lane]):
            alive[event] += 1
    assert sorted(ends) == [*range(1, 1 + max([0, *alive]))]

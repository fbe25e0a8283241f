"""Timelines: the intervals of a window put together, and long windows shortened."""

from functools import partial
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.timeline import (
    Allocation,
    AllocEvent,
    Event,
    FreeEvent,
    Timeline,
    timeline,
)

_PARTS = 32


def held(nbytes: int) -> Held:
    return Held(nbytes, (nbytes,), "uint8", "empty", "attn.py:1")


def alloc(nbytes: int) -> AllocEvent:
    return AllocEvent(nbytes, partial(held, nbytes))


def spans(line: Timeline) -> list[tuple[int, int, int | None]]:
    return [(span.held.nbytes, span.allocated_at, span.freed_at) for span in line.spans]


def test_an_allocation_lasts_until_its_free() -> None:
    line = timeline([(0, [alloc(10), alloc(20), FreeEvent(0, 10), alloc(5)])])
    assert line == Timeline(
        4, (Allocation(held(10), 0, 2), Allocation(held(20), 1, None), Allocation(held(5), 3, None))
    )
    assert line.levels() == [10, 30, 20, 25]


def test_a_tensor_freed_in_a_later_interval_is_one_allocation() -> None:
    line = timeline(
        [(3, [alloc(10)]), (4, []), (7, [alloc(20), FreeEvent(3, 10), FreeEvent(7, 20)])]
    )
    assert spans(line) == [(10, 0, 2), (20, 1, 3)]


def test_a_tensor_from_before_is_subtracted_when_it_is_freed() -> None:
    line = timeline([(2, [alloc(100), FreeEvent(0, 60), alloc(50), FreeEvent(1, 1024)])])
    assert spans(line) == [(100, 0, None), (-60, 1, None), (50, 2, None), (-1024, 3, None)]
    assert line.levels() == [100, 40, 90, -934]
    assert line.spans[1].held == Held(-60, (), "", "(from before)", "")
    assert line.note == "the run itself; 1.1 KiB from before was freed in it and is subtracted"


def test_a_tensor_that_is_not_listed_is_not_described() -> None:
    def fail() -> Held:
        raise AssertionError

    line = timeline([(0, [AllocEvent(1, fail), alloc(9), alloc(8)])], most=2)
    assert [span.held.nbytes for span in line.spans if span.held.shape] == [9, 8]


def test_a_window_in_which_nothing_happened_has_no_levels() -> None:
    assert timeline([(0, [])]) == Timeline(0, ())
    assert timeline([(0, [])]).levels() == []


def test_many_tensors_are_the_largest_and_the_sum_of_the_others() -> None:
    small = [event for n in range(100) for event in (alloc(1), FreeEvent(n, 1))]
    line = timeline([(0, [*small, alloc(50), alloc(1), FreeEvent(100, 50), alloc(40)])], most=2)
    assert line.note == "the run itself; the 101 smallest are added up"
    assert [span.held.op for span in line.spans] == ["empty", "101 smaller", "empty"]
    assert spans(line) == [(50, 0, 2), (1, 1, None), (40, 3, None)]
    assert line.levels() == [50, 51, 1, 41]


def test_among_equal_tensors_those_at_the_peak_come_first() -> None:
    transient = [event for n in range(5) for event in (alloc(10), FreeEvent(n, 10))]
    line = timeline([(0, [*transient, alloc(10), alloc(10)])], most=2)
    assert [span.freed_at for span in line.spans if span.held.op == "empty"] == [None, None]


@st.composite
def windows(draw: st.DrawFn) -> list[tuple[int, list[Event]]]:
    """Intervals of events; numbers 0 to 2 are from before, and some events are not observed."""
    alive = {number: 7 * (number + 1) for number in range(3)}
    number, intervals = 3, []
    for _ in range(draw(st.integers(1, 3))):
        events: list[Event] = []
        first = number
        for _ in range(draw(st.integers(0, 40))):
            if alive and draw(st.booleans()):
                gone = draw(st.sampled_from(sorted(alive)))
                events.append(FreeEvent(gone, alive.pop(gone)))
            else:
                alive[number] = draw(st.integers(1, 9))
                events.append(alloc(alive[number]))
                number += 1
        intervals.append((first, events))
        number += draw(st.integers(0, 2))
    return intervals


def truth(intervals: list[tuple[int, list[Event]]]) -> list[int]:
    events = [event for _, part in intervals for event in part]
    return [*accumulate(e.nbytes if isinstance(e, AllocEvent) else -e.nbytes for e in events)]


@given(windows())
def test_the_level_is_the_measured_one(intervals: list[tuple[int, list[Event]]]) -> None:
    assert timeline(intervals).levels() == truth(intervals)


@given(windows(), st.integers(0, 12))
def test_the_peak_and_the_end_are_exact_however_few_tensors_are_listed(
    intervals: list[tuple[int, list[Event]]], most: int
) -> None:
    line, levels = timeline(intervals, most), truth(intervals)
    assert max([0, *line.levels()]) == max([0, *levels])
    assert line.levels()[-1:] == levels[-1:] or levels[-1:] == [0]
    assert len(line.spans) <= max(most + _PARTS + 3, most)
    assert line.events <= max(2 * len(line.spans), len(levels) * (len(line.spans) <= most))


@pytest.mark.parametrize("most", [0, 1, 5])
def test_a_long_window_becomes_short(most: int) -> None:
    events: list[Event] = []
    for n in range(0, 20000, 2):
        events += [alloc(n + 1), alloc(3), FreeEvent(n, n + 1)]
    line = timeline([(0, events)], most)
    assert max(line.levels()) == max(truth([(0, events)]))
    assert line.levels()[-1] == 30000
    assert len(line.spans) <= most + _PARTS + 3

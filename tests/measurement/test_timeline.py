"""Who was alive when: the pieces of a window put together, and long ones made short."""

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


def birth(nbytes: int) -> AllocEvent:
    return AllocEvent(nbytes, partial(held, nbytes))


def lives(told: Timeline) -> list[tuple[int, int, int | None]]:
    return [(span.held.nbytes, span.allocated_at, span.freed_at) for span in told.spans]


def test_a_life_goes_from_its_birth_to_its_death() -> None:
    told = timeline([(0, [birth(10), birth(20), FreeEvent(0, 10), birth(5)])])
    assert told == Timeline(
        4, (Allocation(held(10), 0, 2), Allocation(held(20), 1, None), Allocation(held(5), 3, None))
    )
    assert told.levels() == [10, 30, 20, 25]


def test_who_is_born_in_one_interval_and_dies_in_another_is_one_life() -> None:
    told = timeline(
        [(3, [birth(10)]), (4, []), (7, [birth(20), FreeEvent(3, 10), FreeEvent(7, 20)])]
    )
    assert lives(told) == [(10, 0, 2), (20, 1, 3)]


def test_what_was_there_before_is_taken_off_when_it_dies() -> None:
    told = timeline([(2, [birth(100), FreeEvent(0, 60), birth(50), FreeEvent(1, 1024)])])
    assert lives(told) == [(100, 0, None), (-60, 1, None), (50, 2, None), (-1024, 3, None)]
    assert told.levels() == [100, 40, 90, -934]
    assert told.spans[1].held == Held(-60, (), "", "(from before)", "")
    assert told.note == "the run itself; 1.1 KiB from before was freed in it and is subtracted"


def test_what_nobody_asks_for_is_not_written_down() -> None:
    def fail() -> Held:
        raise AssertionError

    told = timeline([(0, [AllocEvent(1, fail), birth(9), birth(8)])], most=2)
    assert [span.held.nbytes for span in told.spans if span.held.shape] == [9, 8]


def test_a_window_in_which_nothing_happened_has_no_levels() -> None:
    assert timeline([(0, [])]) == Timeline(0, ())
    assert timeline([(0, [])]).levels() == []


def test_of_many_lives_the_largest_are_told_and_the_others_together() -> None:
    small = [event for n in range(100) for event in (birth(1), FreeEvent(n, 1))]
    told = timeline([(0, [*small, birth(50), birth(1), FreeEvent(100, 50), birth(40)])], most=2)
    assert told.note == "the run itself; the 101 smallest are added up"
    assert [span.held.op for span in told.spans] == ["empty", "101 smaller", "empty"]
    assert lives(told) == [(50, 0, 2), (1, 1, None), (40, 3, None)]
    assert told.levels() == [50, 51, 1, 41]


def test_of_equals_those_that_the_peak_is_made_of_come_first() -> None:
    transient = [event for n in range(5) for event in (birth(10), FreeEvent(n, 10))]
    told = timeline([(0, [*transient, birth(10), birth(10)])], most=2)
    assert [span.freed_at for span in told.spans if span.held.op == "empty"] == [None, None]


@st.composite
def windows(draw: st.DrawFn) -> list[tuple[int, list[Event]]]:
    """Stretches of events; numbers 0 to 2 were there before, and some are born out of sight."""
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
                events.append(birth(alive[number]))
                number += 1
        intervals.append((first, events))
        number += draw(st.integers(0, 2))
    return intervals


def truth(intervals: list[tuple[int, list[Event]]]) -> list[int]:
    events = [event for _, part in intervals for event in part]
    return [*accumulate(e.nbytes if isinstance(e, AllocEvent) else -e.nbytes for e in events)]


@given(windows())
def test_the_level_is_the_one_that_a_peak_is_measured_in(
    intervals: list[tuple[int, list[Event]]],
) -> None:
    assert timeline(intervals).levels() == truth(intervals)


@given(windows(), st.integers(0, 12))
def test_however_much_is_left_out_the_peak_and_the_end_are_exact(
    intervals: list[tuple[int, list[Event]]], most: int
) -> None:
    told, levels = timeline(intervals, most), truth(intervals)
    assert max([0, *told.levels()]) == max([0, *levels])
    assert told.levels()[-1:] == levels[-1:] or levels[-1:] == [0]
    assert len(told.spans) <= max(most + _PARTS + 3, most)
    assert told.events <= max(2 * len(told.spans), len(levels) * (len(told.spans) <= most))


@pytest.mark.parametrize("most", [0, 1, 5])
def test_a_long_window_becomes_short(most: int) -> None:
    events: list[Event] = []
    for n in range(0, 20000, 2):
        events += [birth(n + 1), birth(3), FreeEvent(n, n + 1)]
    told = timeline([(0, events)], most)
    assert max(told.levels()) == max(truth([(0, events)]))
    assert told.levels()[-1] == 30000
    assert len(told.spans) <= most + _PARTS + 3

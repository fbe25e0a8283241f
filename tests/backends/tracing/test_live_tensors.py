"""Live tensors, with allocations and frees by hand."""

import pytest

from pytest_attnmem.backends.tracing.live_tensors import LiveTensors
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.protocol import Delta
from pytest_attnmem.measurement.timeline import FreeEvent


@pytest.fixture
def tensors():
    return LiveTensors()


def allocate(tensors, nbytes):
    return tensors.allocate(nbytes, lambda: Held(nbytes, (), "", "", ""))


def sizes(alive):
    return [(number, held.nbytes) for number, held in alive]


def test_an_interval_has_the_events_since_it_began(tensors):
    earlier = allocate(tensors, 10)
    tensors.begin()
    second = allocate(tensors, 5)
    tensors.free(earlier)
    third = allocate(tensors, 4)
    tensors.free(second)
    interval = tensors.interval(tensors.delta)
    assert interval.requested == Delta(5, -6)
    assert (interval.first_allocation, interval.allocations) == (1, 2)
    assert sizes(interval.held) == [(0, 10), (1, 5)]
    assert sizes(interval.left) == [(third, 4)]
    first, freed, other, last = interval.events
    assert (first.nbytes, other.nbytes) == (5, 4)
    assert (freed, last) == (FreeEvent(0, 10), FreeEvent(1, 5))
    assert [*interval.events[1::2]] == [freed, last]


def test_a_second_free_and_that_of_a_forgotten_tensor_are_ignored(tensors):
    number, forgotten = allocate(tensors, 10), allocate(tensors, 5)
    tensors.free(number)
    tensors.free(number)
    assert tensors.delta == Delta(15, 5)
    tensors.forget()
    tensors.free(forgotten)
    assert (tensors.delta, len(tensors.events)) == (Delta(15, 5), 3)


def test_later_events_are_not_part_of_an_interval(tensors):
    number = allocate(tensors, 10)
    interval = tensors.interval(tensors.delta)
    tensors.free(number)
    assert len(interval.events) == 1

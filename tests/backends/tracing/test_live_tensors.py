"""Births and deaths interval by hand."""

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


def test_an_interval_tells_what_happened_since_it_began(tensors):
    first = allocate(tensors, 10)
    tensors.begin()
    second = allocate(tensors, 5)
    tensors.free(first)
    third = allocate(tensors, 4)
    tensors.free(second)
    interval = tensors.interval(tensors.delta)
    assert interval.requested == Delta(5, -6)
    assert (interval.first_allocation, interval.allocations) == (1, 2)
    assert sizes(interval.held) == [(0, 10), (1, 5)]
    assert sizes(interval.left) == [(third, 4)]
    birth, death, other, last = interval.events
    assert (birth.nbytes, other.nbytes) == (5, 4)
    assert (death, last) == (FreeEvent(0, 10), FreeEvent(1, 5))


def test_who_died_does_not_die_again(tensors):
    number = allocate(tensors, 10)
    tensors.free(number)
    tensors.free(number)
    assert tensors.delta == Delta(10, 0)


def test_of_who_is_forgotten_no_death_is_told(tensors):
    number = allocate(tensors, 10)
    tensors.forget()
    tensors.free(number)
    assert len(tensors.events) == 1


def test_what_happens_after_an_interval_is_no_part_of_it(tensors):
    number = allocate(tensors, 10)
    interval = tensors.interval(tensors.delta)
    tensors.free(number)
    assert len(interval.events) == 1

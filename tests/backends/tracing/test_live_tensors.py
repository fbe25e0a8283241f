"""Births and deaths told by hand."""

import pytest

from pytest_attnmem.backends.tracing.live_tensors import LiveTensors
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.protocol import Delta
from pytest_attnmem.measurement.timeline import FreeEvent


@pytest.fixture
def ledger():
    return LiveTensors()


def born(ledger, nbytes):
    return ledger.born(nbytes, lambda: Held(nbytes, (), "", "", ""))


def sizes(alive):
    return [(number, held.nbytes) for number, held in alive]


def test_a_stretch_tells_what_happened_since_it_began(ledger):
    first = born(ledger, 10)
    ledger.begin()
    second = born(ledger, 5)
    ledger.died(first)
    third = born(ledger, 4)
    ledger.died(second)
    told = ledger.stretch(ledger.rise)
    assert told.requested == Delta(5, -6)
    assert (told.births, told.allocations) == (1, 2)
    assert sizes(told.held) == [(0, 10), (1, 5)]
    assert sizes(told.left) == [(third, 4)]
    birth, death, other, last = told.events
    assert (birth.nbytes, other.nbytes) == (5, 4)
    assert (death, last) == (FreeEvent(0, 10), FreeEvent(1, 5))


def test_who_died_does_not_die_again(ledger):
    number = born(ledger, 10)
    ledger.died(number)
    ledger.died(number)
    assert ledger.rise == Delta(10, 0)


def test_of_who_is_forgotten_no_death_is_told(ledger):
    number = born(ledger, 10)
    ledger.forget()
    ledger.died(number)
    assert len(ledger.events) == 1


def test_what_happens_after_a_stretch_is_no_part_of_it(ledger):
    number = born(ledger, 10)
    told = ledger.stretch(ledger.rise)
    ledger.died(number)
    assert len(told.events) == 1

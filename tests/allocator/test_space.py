"""Addresses of expandable segments."""

from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.allocator.expandable import AddressSpace


def test_the_lowest_gap_that_fits_is_taken():
    space = AddressSpace()
    assert [space.take(size) for size in (4, 2, 6, 1)] == [0, 4, 6, 12]
    space.give_back(0, 4)
    space.give_back(6, 6)
    assert [space.take(size) for size in (5, 3, 1, 1, 1)] == [6, 0, 3, 11, 13]


def test_gaps_that_meet_are_one():
    space = AddressSpace()
    for _ in range(4):
        space.take(2)
    for address in (0, 4, 2):
        space.give_back(address, 2)
    assert space.take(6) == 0
    space.give_back(6, 2)  # the last one: the end moves down
    assert space.take(7) == 6


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9)), max_size=60))
def test_it_is_the_first_room_between_what_is_taken(steps):
    space, taken = AddressSpace(), {}
    for take, number in steps:
        if take or not taken:
            used = {at + offset for at, size in taken.items() for offset in range(size)}
            expected = next(at for at in range(999) if used.isdisjoint(range(at, at + number)))
            assert space.take(number) == expected
            taken[expected] = number
        else:
            address = sorted(taken)[number % len(taken)]
            space.give_back(address, taken.pop(address))

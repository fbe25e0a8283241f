"""Expandable segments: the mapped pages and their addresses.

``test_recorded.py`` has all statistics after thousands of calls, as PyTorch's allocator has them.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.allocator import AllocationError, CachingAllocator, parse_settings
from pytest_attnmem.allocator.expandable import AddressSpace

MIB = 2**20


def fresh(settings="", capacity=200 * MIB):
    text = f"expandable_segments:True,{settings}"
    return CachingAllocator(parse_settings(text), capacity=capacity)


def reserved(allocator):
    return allocator.statistics.reserved.current // MIB


def test_whole_pages_are_given_back_from_the_middle():
    allocator = fresh()
    first, middle, last = (allocator.malloc(30 * MIB) for _ in range(3))
    assert reserved(allocator) == 100
    allocator.free(middle)
    allocator.empty_cache()  # 30 to 60: the page of 40 to 60, and the one after the last
    assert reserved(allocator) == 80
    assert allocator.statistics.device_frees == 1
    assert allocator.malloc(30 * MIB) == middle  # mapped again
    assert reserved(allocator) == 100
    for address in (first, middle, last):
        allocator.free(address)
    allocator.empty_cache()
    assert reserved(allocator) == 0


def test_of_blocks_that_could_grow_alike_the_smaller_is_taken():
    allocator = fresh()
    large = allocator.malloc(119 * MIB)
    between = allocator.malloc(2 * MIB)  # leaves 19 of its page and 100 of the addresses
    allocator.free(large)
    assert allocator.malloc(10 * MIB) == between + 2 * MIB


def test_addresses_that_were_given_back_come_first():
    allocator = fresh()
    gone, kept = allocator.malloc(100 * MIB), allocator.malloc(20 * MIB)
    allocator.free(gone)
    allocator.empty_cache()
    other = allocator.malloc(130 * MIB)  # too large for the rest on either side
    assert other >= gone + 240 * MIB
    allocator.free(kept)
    allocator.empty_cache()
    with pytest.raises(AllocationError):
        allocator.malloc(120 * MIB)  # but a third range took the place of the first
    assert allocator.malloc(15 * MIB) >= other + 240 * MIB
    assert reserved(allocator) == 160


def test_the_memory_fraction_is_held_to_a_segment_though_pages_are_mapped():
    allocator = fresh("per_process_memory_fraction:0.1", capacity=150 * MIB)
    with pytest.raises(AllocationError):
        allocator.malloc(3 * MIB)  # needs 20, and 15 are allowed
    allocator.malloc(11 * MIB)  # 12
    assert reserved(allocator) == 20
    with pytest.raises(AllocationError) as caught:
        allocator.malloc(10 * MIB)
    assert (caught.value.capacity, caught.value.free) == (15 * MIB, 0)


def test_the_lowest_gap_that_fits_is_taken():
    space = AddressSpace()
    assert [space.take(size) for size in (4, 2, 6, 1)] == [0, 4, 6, 12]
    space.give_back(0, 4)
    space.give_back(6, 6)
    assert [space.take(size) for size in (5, 3, 1, 1, 1)] == [6, 0, 3, 11, 13]


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

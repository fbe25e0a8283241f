"""Expandable segments: the mapped pages and their addresses."""

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


def test_pages_are_mapped_as_they_are_needed():
    allocator = fresh()
    first = allocator.malloc(3 * MIB)
    assert reserved(allocator) == 20
    second = allocator.malloc(30 * MIB)
    assert second == first + 3 * MIB
    assert reserved(allocator) == 40
    assert allocator.statistics.allocated.current == 33 * MIB


def test_small_ones_are_of_two_mebibytes():
    allocator = fresh()
    for _ in range(3):
        allocator.malloc(MIB)
    assert reserved(allocator) == 4


def test_pages_are_as_large_as_is_said():
    allocator = fresh("large_segment_size_mb:12")
    allocator.malloc(13 * MIB)
    assert reserved(allocator) == 24


def test_each_stream_has_addresses_of_its_own():
    allocator = fresh()
    addresses = [allocator.malloc(2 * MIB, stream) for stream in (0, 1)]
    assert abs(addresses[0] - addresses[1]) >= 225 * MIB  # an eighth more than the capacity
    assert reserved(allocator) == 40


def test_no_tail_is_charged():
    allocator = fresh()
    allocator.malloc(11 * MIB)
    assert allocator.statistics.allocated.current == 11 * MIB
    allocator.malloc(9 * MIB - 512)
    assert allocator.statistics.allocated.current == 20 * MIB - 512


def test_splits_and_segments_are_not_counted():
    allocator = fresh()
    allocator.malloc(3 * MIB)
    allocator.free(allocator.malloc(3 * MIB))
    assert allocator.statistics.inactive_split.peak == 0
    assert allocator.statistics.segments.peak == 0


def test_a_freed_end_grows_into_what_is_next():
    allocator = fresh()
    first = allocator.malloc(15 * MIB)
    allocator.free(first)
    assert allocator.malloc(50 * MIB) == first
    assert reserved(allocator) == 60


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


def test_a_block_of_less_than_a_page_stays():
    allocator = fresh()
    allocator.malloc(3 * MIB)
    allocator.empty_cache()
    assert reserved(allocator) == 20
    assert allocator.statistics.device_frees == 0


def test_the_best_fit_is_that_which_could_grow_least():
    allocator = fresh()
    gap = allocator.malloc(8 * MIB)
    allocator.malloc(2 * MIB)
    allocator.malloc(6 * MIB)  # the last 4 MiB of the page are free, and can grow
    allocator.free(gap)
    assert allocator.malloc(3 * MIB) == gap
    assert reserved(allocator) == 20


def test_where_they_could_grow_alike_it_is_the_smaller():
    allocator = fresh()
    large = allocator.malloc(119 * MIB)
    between = allocator.malloc(2 * MIB)  # leaves 19 of its page and 100 of the addresses
    allocator.free(large)
    assert allocator.malloc(10 * MIB) == between + 2 * MIB


def test_pages_between_free_blocks_make_one_of_them():
    allocator = fresh()
    _, second, third, _ = (allocator.malloc(20 * MIB) for _ in range(4))
    allocator.free(second)
    allocator.empty_cache()
    allocator.free(third)
    assert reserved(allocator) == 60
    assert allocator.malloc(40 * MIB) == second
    assert reserved(allocator) == 80


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


def test_what_was_mapped_in_vain_is_kept_until_the_cache_is_emptied():
    allocator = fresh(capacity=70 * MIB)
    kept = allocator.malloc(20 * MIB)
    gone = allocator.malloc(20 * MIB)
    allocator.malloc(20 * MIB)
    allocator.free(gone)
    allocator.empty_cache()
    assert reserved(allocator) == 40
    with pytest.raises(AllocationError) as caught:
        allocator.malloc(40 * MIB)
    assert (caught.value.free, caught.value.reserved) == (30 * MIB, 40 * MIB)
    assert allocator.size_of(kept) == 20 * MIB
    assert allocator.malloc(20 * MIB) == gone


def test_a_large_limit_holds_here_too():
    allocator = fresh("max_split_size_mb:40")
    whole = allocator.malloc(50 * MIB)
    behind = allocator.malloc(10 * MIB)
    allocator.free(whole)
    assert allocator.malloc(30 * MIB) == behind + 10 * MIB
    assert reserved(allocator) == 100


def test_nothing_is_collected():
    allocator = fresh("per_process_memory_fraction:0.9,garbage_collection_threshold:0.1")
    allocator.free(allocator.malloc(60 * MIB))
    allocator.malloc(40 * MIB, stream=1)
    assert reserved(allocator) == 100


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

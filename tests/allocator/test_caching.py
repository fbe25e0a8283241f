"""The statistics of the allocator after each call, counted by hand."""

import pickle

import pytest

from pytest_attnmem.allocator import (
    AddressError,
    AllocationError,
    AllocatorSettings,
    CachingAllocator,
    Level,
    parse_settings,
)
from pytest_attnmem.errors import AttnMemError, SizeError

MIB, GIB = 2**20, 2**30


def fresh(settings="", capacity=GIB, **arguments):
    return CachingAllocator(parse_settings(settings), capacity=capacity, **arguments)


def current(allocator, *names):
    return tuple(getattr(allocator.statistics, name).current for name in names)


def test_a_small_block_is_cut_from_two_mebibytes():
    allocator = fresh()
    address = allocator.malloc(1000)
    statistics = allocator.statistics
    assert statistics.requested == Level(1000, 1000)
    assert statistics.allocated == statistics.active == Level(1024, 1024)
    assert statistics.reserved == Level(2 * MIB, 2 * MIB)
    assert statistics.inactive_split == Level(2 * MIB - 1024, 2 * MIB - 1024)
    assert statistics.segments == Level(1, 1)
    assert statistics.device_allocs == 1
    assert allocator.size_of(address) == 1024


def test_what_is_freed_is_kept_and_used_again():
    allocator = fresh()
    first = allocator.malloc(3 * MIB)
    allocator.free(first)
    assert current(allocator, "allocated", "reserved", "inactive_split") == (0, 20 * MIB, 0)
    assert allocator.malloc(2 * MIB) == first
    assert current(allocator, "allocated", "reserved") == (2 * MIB, 20 * MIB)


def test_a_tail_of_a_mebibyte_or_less_is_charged_whole():
    allocator = fresh()
    allocator.malloc(11 * MIB)  # it has a segment of 12
    assert current(allocator, "requested", "allocated", "inactive_split") == (11 * MIB, 12 * MIB, 0)
    allocator.malloc(11 * MIB - 512)
    assert current(allocator, "allocated", "inactive_split") == (23 * MIB - 512, MIB + 512)


def test_small_and_large_blocks_do_not_mix():
    allocator = fresh()
    allocator.free(allocator.malloc(5 * MIB))
    allocator.malloc(MIB)
    assert current(allocator, "reserved", "segments") == (22 * MIB, 2)


def test_streams_do_not_share_blocks():
    allocator = fresh()
    address = allocator.malloc(MIB, stream=1)
    allocator.free(address)
    assert allocator.malloc(MIB, stream=2) != address
    assert current(allocator, "reserved") == (4 * MIB,)
    assert allocator.malloc(MIB, stream=1) == address


def test_neighbours_merge_whatever_the_order_they_are_freed_in():
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0)):
        allocator = fresh()
        addresses = [allocator.malloc(4 * MIB) for _ in range(3)]
        for index in order:
            allocator.free(addresses[index])
        assert current(allocator, "inactive_split", "segments") == (0, 1)
        assert allocator.malloc(9 * MIB) == addresses[0]
        assert current(allocator, "reserved") == (20 * MIB,)


def test_nothing_is_allocated_for_zero_bytes():
    allocator = fresh()
    before = allocator.statistics
    assert allocator.malloc(0) == 0
    allocator.free(0)
    allocator.record_stream(0, 1)
    assert allocator.statistics == before


def test_peaks_can_begin_anew():
    allocator = fresh()
    allocator.free(allocator.malloc(5 * MIB))
    kept = allocator.malloc(MIB)
    assert allocator.statistics.allocated == Level(MIB, 5 * MIB)
    allocator.reset_peak()
    assert allocator.statistics.allocated == Level(MIB, MIB)
    assert allocator.statistics.reserved == Level(22 * MIB, 22 * MIB)
    allocator.free(kept)
    assert allocator.statistics.requested == Level(0, MIB)


def test_an_emptied_cache_keeps_what_is_partly_in_use():
    allocator = fresh()
    allocator.malloc(4 * MIB)
    for nbytes in (10, 4 * MIB, 30 * MIB):
        allocator.free(allocator.malloc(nbytes))
    assert current(allocator, "reserved") == (52 * MIB,)
    allocator.empty_cache()
    assert current(allocator, "reserved", "inactive_split") == (20 * MIB, 16 * MIB)
    assert allocator.statistics.device_frees == 2


def test_what_another_stream_uses_is_not_free_until_the_next_malloc():
    allocator = fresh()
    address = allocator.malloc(MIB)
    allocator.record_stream(address, 7)
    allocator.free(address)
    assert current(allocator, "requested", "allocated", "active") == (MIB, 0, MIB)
    assert allocator.malloc(MIB) == address
    assert current(allocator, "active") == (MIB,)
    allocator.free(address)  # no other stream uses the new block
    assert current(allocator, "active") == (0,)


def test_nor_until_the_cache_is_emptied():
    allocator = fresh()
    address = allocator.malloc(MIB)
    allocator.record_stream(address, 7)
    allocator.free(address)
    allocator.empty_cache()
    assert current(allocator, "active", "reserved") == (0, 0)


def test_its_own_stream_is_no_other():
    allocator = fresh()
    address = allocator.malloc(MIB, stream=7)
    allocator.record_stream(address, 7)
    allocator.free(address)
    assert current(allocator, "active") == (0,)


def test_the_cache_is_emptied_before_memory_is_out():
    allocator = fresh(capacity=100 * MIB)
    allocator.free(allocator.malloc(60 * MIB))
    allocator.malloc(50 * MIB)  # from the segment of 60
    allocator.malloc(40 * MIB)
    assert allocator.statistics.alloc_retries == 0
    allocator = fresh(capacity=100 * MIB)
    allocator.free(allocator.malloc(60 * MIB))
    allocator.malloc(70 * MIB)
    assert allocator.statistics.alloc_retries == 1
    assert allocator.statistics.ooms == 0
    assert current(allocator, "reserved") == (70 * MIB,)


def test_running_out_says_of_what():
    allocator = fresh(capacity=100 * MIB, taken=10 * MIB)
    kept = allocator.malloc(33 * MIB)
    allocator.malloc(5 * MIB)
    before = current(allocator, "allocated", "reserved", "active", "requested")
    with pytest.raises(AllocationError) as caught:
        allocator.malloc(41 * MIB)
    assert str(caught.value) == (
        "out of memory: 41.0 MiB asked for, 36.0 MiB free of 100.0 MiB;"
        " 39.0 MiB allocated, and 15.0 MiB reserved besides"
    )
    error = caught.value
    assert (error.asked, error.segment, error.capacity) == (41 * MIB, 42 * MIB, 100 * MIB)
    assert (error.free, error.allocated, error.reserved) == (36 * MIB, 39 * MIB, 54 * MIB)
    assert isinstance(error, AttnMemError)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.free) == (str(error), 36 * MIB)
    assert current(allocator, "allocated", "reserved", "active", "requested") == before
    assert (allocator.statistics.alloc_retries, allocator.statistics.ooms) == (1, 1)
    allocator.free(kept)
    allocator.malloc(41 * MIB)


def test_memory_can_be_filled_to_the_last_byte():
    allocator = fresh(capacity=24 * MIB)
    allocator.malloc(MIB)
    allocator.malloc(22 * MIB)
    with pytest.raises(AllocationError):
        allocator.malloc(2 * MIB)
    allocator.malloc(MIB)


def test_odd_segments_take_whole_granules_of_the_device():
    allocator = fresh("large_segment_size_mb:21", capacity=43 * MIB)
    allocator.malloc(2 * MIB)
    with pytest.raises(AllocationError) as caught:
        allocator.malloc(2 * MIB, stream=1)
    assert current(allocator, "reserved") == (21 * MIB,)
    assert caught.value.free == 21 * MIB  # 22 are needed


def test_and_give_as_many_back():
    allocator = fresh("large_segment_size_mb:21", capacity=22 * MIB)
    for _ in range(3):
        allocator.free(allocator.malloc(2 * MIB))
        allocator.empty_cache()
    assert allocator.statistics.segments == Level(0, 1)


@pytest.mark.parametrize("call", ["free", "size_of"])
def test_an_address_that_is_not_allocated_is_refused(call):
    allocator = fresh()
    address = allocator.malloc(1)
    allocator.free(address)
    consequence = {"free": "it cannot be freed", "size_of": "it has no size"}[call]
    with pytest.raises(AddressError) as caught:
        getattr(allocator, call)(address)
    assert str(caught.value) == f"nothing is allocated at {address:#x}, so {consequence}"
    with pytest.raises(AddressError, match=r"so no stream can use it$"):
        allocator.record_stream(address, 1)


def test_sizes_that_cannot_be_are_refused():
    with pytest.raises(SizeError, match=r"^cannot allocate -1 bytes; expected 0 or more$"):
        fresh().malloc(-1)
    with pytest.raises(SizeError, match=r"^taken is 5 bytes of 4; expected 0 to 4$"):
        fresh(capacity=4, taken=5)


def test_the_default_settings_are_pytorchs():
    allocator = CachingAllocator(capacity=GIB)
    allocator.malloc(3 * MIB)
    assert current(allocator, "reserved") == (AllocatorSettings().large_segment_size,)

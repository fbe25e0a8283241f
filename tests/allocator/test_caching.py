"""What the allocator says and refuses, and some statistics counted by hand.

``test_recorded.py`` has all statistics after thousands of calls, as PyTorch's allocator has them.
"""

import pickle

import pytest

from pytest_attnmem.allocator import (
    AddressError,
    AllocationError,
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
    allocator = CachingAllocator(capacity=GIB)
    address = allocator.malloc(1000)
    statistics = allocator.statistics
    assert statistics.requested == Level(1000, 1000)
    assert statistics.allocated == statistics.active == Level(1024, 1024)
    assert statistics.reserved == Level(2 * MIB, 2 * MIB)
    assert statistics.inactive_split == Level(2 * MIB - 1024, 2 * MIB - 1024)
    assert statistics.segments == Level(1, 1)
    assert statistics.device_allocs == 1
    assert allocator.size_of(address) == 1024
    large = allocator.malloc(3 * MIB)
    assert current(allocator, "reserved") == (22 * MIB,)
    allocator.free(large)
    assert allocator.malloc(2 * MIB) == large


def test_nothing_is_allocated_for_zero_bytes():
    allocator = fresh()
    before = allocator.statistics
    assert allocator.malloc(0) == 0
    allocator.free(0)
    allocator.record_stream(0, 1)
    assert allocator.statistics == before


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


def test_odd_segments_take_whole_granules_of_the_device_and_give_as_many_back():
    allocator = fresh("large_segment_size_mb:21", capacity=43 * MIB)
    allocator.malloc(2 * MIB)
    with pytest.raises(AllocationError) as caught:
        allocator.malloc(2 * MIB, stream=1)
    assert current(allocator, "reserved") == (21 * MIB,)
    assert caught.value.free == 21 * MIB  # 22 are needed
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

"""Segments at the bounds of settings that decide which blocks are split, cached and released."""

import pytest

from pytest_attnmem.allocator import AllocationError, CachingAllocator, parse_settings

MIB = 2**20


def fresh(settings, capacity=1000 * MIB):
    return CachingAllocator(parse_settings(settings), capacity=capacity)


def reserved(allocator):
    return allocator.statistics.reserved.current // MIB


def test_large_blocks_are_kept_for_large_requests():
    allocator = fresh("max_split_size_mb:40")
    large = allocator.malloc(40 * MIB)
    allocator.free(large)
    allocator.malloc(30 * MIB)
    assert reserved(allocator) == 70
    allocator.malloc(40 * MIB)
    assert reserved(allocator) == 70


def test_a_large_block_is_handed_out_whole_if_not_much_larger():
    allocator = fresh("max_split_size_mb:40,max_non_split_rounding_mb:30")
    allocator.free(allocator.malloc(80 * MIB))
    allocator.malloc(50 * MIB)
    assert reserved(allocator) == 130
    allocator.malloc(51 * MIB)
    assert reserved(allocator) == 130
    assert allocator.statistics.allocated.current == 130 * MIB


def test_a_request_of_the_limit_splits_nothing():
    allocator = fresh("max_split_size_mb:40")
    allocator.free(allocator.malloc(48 * MIB))
    allocator.malloc(40 * MIB)
    assert allocator.statistics.allocated.current == 48 * MIB


def test_large_blocks_are_released_from_the_largest_down_until_there_is_room():
    allocator = fresh("max_split_size_mb:20", capacity=160 * MIB)
    for block in [allocator.malloc(size * MIB) for size in (20, 30, 50, 20)]:
        allocator.free(block)
    allocator.malloc(80 * MIB)
    assert reserved(allocator) == 120  # released the 50 and the 30, which is enough
    assert allocator.statistics.alloc_retries == 0


def test_a_fraction_of_the_memory_is_all_there_is():
    allocator = fresh("per_process_memory_fraction:0.5", capacity=101 * MIB)
    allocator.malloc(50 * MIB)
    with pytest.raises(AllocationError) as caught:
        allocator.malloc(1)
    half = 101 * MIB // 2
    assert (caught.value.capacity, caught.value.free) == (half, half - 50 * MIB)
    allocator = fresh("per_process_memory_fraction:0.5", capacity=100 * MIB)
    allocator.malloc(50 * MIB)  # to the last byte
    assert reserved(allocator) == 50


def test_of_no_memory_nothing_is_free():
    with pytest.raises(AllocationError) as caught:
        fresh("per_process_memory_fraction:0").malloc(1)
    assert (caught.value.capacity, caught.value.free) == (0, 0)


def test_what_just_fits_is_not_rejected():
    allocator = fresh("throw_on_cudamalloc_oom:True", capacity=100 * MIB)
    allocator.malloc(100 * MIB)
    assert allocator.statistics.oom_rejections == 0

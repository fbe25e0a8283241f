"""Segments under settings that decide which blocks are split, cached and released."""

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


def test_a_small_request_splits_no_large_block_but_others():
    allocator = fresh("max_split_size_mb:40")
    allocator.free(allocator.malloc(38 * MIB))
    allocator.malloc(30 * MIB)
    assert reserved(allocator) == 38
    assert allocator.statistics.inactive_split.current == 8 * MIB


def test_one_large_block_makes_room_before_the_cache_is_emptied():
    allocator = fresh("max_split_size_mb:20", capacity=150 * MIB)
    blocks = [allocator.malloc(size * MIB) for size in (40, 100)]
    small = allocator.malloc(1)
    for block in (*blocks, small):
        allocator.free(block)
    allocator.malloc(60 * MIB)  # not from the 100, which are 40 more than asked
    assert reserved(allocator) == 102
    assert allocator.statistics.alloc_retries == 0


def test_or_several_from_the_largest_down():
    allocator = fresh("max_split_size_mb:20", capacity=160 * MIB)
    for block in [allocator.malloc(size * MIB) for size in (20, 30, 50, 20)]:
        allocator.free(block)
    allocator.malloc(80 * MIB)
    assert reserved(allocator) == 120  # released the 50 and the 30, which is enough
    assert allocator.statistics.alloc_retries == 0


def test_what_is_not_enough_is_not_tried():
    allocator = fresh("max_split_size_mb:20", capacity=100 * MIB)
    allocator.malloc(40 * MIB, stream=1)
    allocator.free(allocator.malloc(30 * MIB))
    with pytest.raises(AllocationError):
        allocator.malloc(70 * MIB)
    assert (allocator.statistics.alloc_retries, allocator.statistics.ooms) == (1, 1)
    assert reserved(allocator) == 40


def test_a_fraction_of_the_memory_is_all_there_is():
    allocator = fresh("per_process_memory_fraction:0.5", capacity=101 * MIB)
    allocator.malloc(50 * MIB)
    with pytest.raises(AllocationError) as caught:
        allocator.malloc(1)
    half = 101 * MIB // 2
    assert (caught.value.capacity, caught.value.free) == (half, half - 50 * MIB)


def test_the_fraction_can_be_filled_to_the_last_byte():
    allocator = fresh("per_process_memory_fraction:0.5", capacity=100 * MIB)
    allocator.malloc(50 * MIB)
    assert reserved(allocator) == 50


def test_less_may_be_free_than_the_fraction_allows():
    settings = parse_settings("per_process_memory_fraction:0.9")
    allocator = CachingAllocator(settings, capacity=100 * MIB, taken=70 * MIB)
    with pytest.raises(AllocationError) as caught:
        allocator.malloc(40 * MIB)
    assert (caught.value.capacity, caught.value.free) == (90 * MIB, 30 * MIB)


def test_of_no_memory_nothing_is_free():
    with pytest.raises(AllocationError) as caught:
        fresh("per_process_memory_fraction:0").malloc(1)
    assert (caught.value.capacity, caught.value.free) == (0, 0)


def test_what_was_free_for_long_is_collected():
    settings = "per_process_memory_fraction:0.99,garbage_collection_threshold:0.1"
    allocator = fresh(settings, capacity=1000 * MIB)
    old, young = allocator.malloc(30 * MIB), allocator.malloc(80 * MIB)
    allocator.free(old)
    allocator.malloc(200 * MIB)  # above the threshold: the old one is released
    assert reserved(allocator) == 280
    allocator.free(young)
    allocator.malloc(11 * MIB)  # fits the young one: no collection
    assert reserved(allocator) == 280


def test_collection_goes_on_until_there_is_enough():
    settings = "per_process_memory_fraction:0.99,garbage_collection_threshold:0.01"
    allocator = fresh(settings, capacity=1000 * MIB)
    blocks = [allocator.malloc(size * MIB) for size in (20, 30, 40)]
    for block in blocks:
        allocator.free(block)
        allocator.malloc(1)  # the other pool: no search of this one
        allocator.malloc(600 * MIB if block is blocks[-1] else 2 * MIB, stream=9)
    assert allocator.statistics.segments.current == 3  # released all three free segments


def test_without_a_fraction_nothing_is_collected():
    allocator = fresh("garbage_collection_threshold:0.1", capacity=1000 * MIB)
    allocator.free(allocator.malloc(300 * MIB))
    allocator.malloc(400 * MIB)
    assert reserved(allocator) == 700


def test_what_just_fits_is_not_rejected():
    allocator = fresh("throw_on_cudamalloc_oom:True", capacity=100 * MIB)
    allocator.malloc(100 * MIB)
    assert allocator.statistics.oom_rejections == 0


@pytest.mark.parametrize("more", ["", ",expandable_segments:True"])
def test_what_cannot_fit_is_rejected_without_trying(more):
    allocator = fresh("throw_on_cudamalloc_oom:True" + more, capacity=100 * MIB)
    allocator.free(allocator.malloc(60 * MIB, stream=1))
    with pytest.raises(AllocationError):
        allocator.malloc(50 * MIB)
    statistics = allocator.statistics
    assert (statistics.oom_rejections, statistics.ooms, statistics.alloc_retries) == (1, 0, 0)
    assert reserved(allocator) == 60

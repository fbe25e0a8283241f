"""Properties of the allocator that hold after any events."""

from bisect import bisect_right
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_attnmem.allocator import AllocationError, CachingAllocator, parse_settings

MIB = 2**20
CAPACITY = 256 * MIB
SIZES = st.one_of(
    st.integers(1, 4096),
    st.integers(1, 2 * MIB),
    st.integers(MIB, 90 * MIB),
    st.sampled_from([512, MIB, MIB + 1, 10 * MIB - 1, 10 * MIB]),
)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("malloc"), SIZES, st.integers(0, 1)),
        st.tuples(st.just("free"), st.integers(0, 99), st.none()),
        st.tuples(st.just("record_stream"), st.integers(0, 99), st.integers(0, 1)),
        st.tuples(st.just("empty_cache"), st.none(), st.none()),
    ),
    max_size=60,
)
SETTINGS = st.sampled_from(
    [
        "",
        "max_split_size_mb:30",
        "roundup_power2_divisions:4",
        "large_segment_size_mb:34",
        "per_process_memory_fraction:0.9,garbage_collection_threshold:0.4",
        "expandable_segments:True",
        "expandable_segments:True,large_segment_size_mb:12,max_split_size_mb:20",
    ]
)


def play(allocator, events):
    """Yields the model after each event, with live addresses and sizes in bytes."""
    live = {}
    for name, number, stream in events:
        if name == "malloc":
            with suppress(AllocationError):
                live[allocator.malloc(number, stream)] = number
        elif name == "empty_cache":
            allocator.empty_cache()
        elif live:
            address = list(live)[number % len(live)]
            if name == "free":
                allocator.free(address)
                del live[address]
            else:
                allocator.record_stream(address, stream)
        yield live


@given(SETTINGS, EVENTS)
def test_blocks_are_large_enough_and_never_overlap(text, events):
    allocator = CachingAllocator(parse_settings(text), capacity=CAPACITY)
    for live in play(allocator, events):
        end = 0
        for address in sorted(live):
            assert address >= end
            assert address % 512 == 0
            end = address + allocator.size_of(address)
            assert end - address >= live[address]
        sizes = map(allocator.size_of, live)
        assert allocator.statistics.allocated.current == sum(sizes)


@given(SETTINGS, EVENTS)
def test_the_statistics_are_in_order(text, events):
    allocator = CachingAllocator(parse_settings(text), capacity=CAPACITY)
    before = allocator.statistics
    for live in play(allocator, events):
        now = allocator.statistics
        assert sum(live.values()) <= now.requested.current <= now.active.current
        assert now.allocated.current <= now.active.current
        assert now.active.current + now.inactive_split.current <= now.reserved.current <= CAPACITY
        for earlier, later in zip(before[:6], now[:6], strict=True):
            assert 0 <= later.current <= later.peak
            assert later.peak >= earlier.peak
        before = now


@given(SETTINGS, EVENTS)
def test_nothing_is_left_of_what_is_freed(text, events):
    allocator = CachingAllocator(parse_settings(text), capacity=CAPACITY)
    states = list(play(allocator, events))
    for address in states[-1] if states else ():
        allocator.free(address)
    allocator.free(allocator.malloc(1))  # the next malloc frees the blocks of other streams
    now = allocator.statistics
    assert (now.requested.current, now.allocated.current, now.active.current) == (0, 0, 0)
    assert now.inactive_split.current == 0  # neighbours have merged into whole segments
    allocator.empty_cache()
    now = allocator.statistics
    assert (now.reserved.current, now.segments.current) == (0, 0)
    assert now.device_frees >= bool(now.device_allocs)
    allocator.malloc(230 * MIB)


@given(SETTINGS.filter(lambda text: "expandable" not in text), EVENTS)
def test_an_emptied_cache_gives_back_just_the_segments_without_a_live_block(text, events):
    allocator = CachingAllocator(parse_settings(text), capacity=CAPACITY)
    for _ in play(allocator, events):
        pass
    allocator.free(allocator.malloc(1))
    before = allocator.statistics
    allocator.empty_cache()
    after = allocator.statistics
    assert after.reserved.current == before.active.current + before.inactive_split.current
    assert after.active == before.active
    assert after.inactive_split == before.inactive_split


@given(st.lists(st.integers(1, 80), min_size=1, max_size=30), st.integers(1, 80 * 512))
@settings(max_examples=200)
def test_the_smallest_block_that_fits_is_taken_and_of_these_the_first(gaps, nbytes):
    allocator = CachingAllocator(capacity=CAPACITY)
    free = []
    for gap in gaps:
        free.append((gap * 512, allocator.malloc(gap * 512)))
        allocator.malloc(512)  # separates it from the next
    rest = allocator.statistics.inactive_split.current
    while rest:  # leaves nothing but the gaps
        rest -= allocator.size_of(allocator.malloc(min(rest, MIB)))
    for _, address in free:
        allocator.free(address)
    free.sort()
    index = bisect_right(free, (nbytes, -1))
    found = allocator.malloc(nbytes)
    if index < len(free):
        assert found == free[index][1]
    else:
        assert found not in dict.fromkeys(address for _, address in free)
        assert allocator.statistics.segments.current == 2

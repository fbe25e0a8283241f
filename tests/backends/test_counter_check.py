"""Counters that are wrong about a block of a known size are found, whatever is wrong."""

from collections import Counter

import pytest

from pytest_attnmem.backends.counter_backend import fault_of_counters

from .scripted_counters import ScriptedAllocator

BOTH = ("requested", "allocated")


class Scripted(ScriptedAllocator):
    """It has tensors, and had more."""

    def __init__(self):
        super().__init__()
        for nbytes in (7, 7, -7):
            self.change(nbytes)


class WithoutReset(Scripted):
    def reset_peaks(self):
        pass


class WithoutFrees(Scripted):
    def change(self, nbytes):
        if nbytes > 0:
            super().change(nbytes)


class WithoutPeaks(Scripted):
    def change(self, nbytes):
        super().change(nbytes)
        self.reset_peaks()


class FrozenPeaks(Scripted):
    def change(self, nbytes):
        kept = Counter(self.peak)
        super().change(nbytes)
        self.peak = kept


class Rounding(Scripted):
    def change(self, nbytes):
        super().change(nbytes * 2)


class Uncounted(Scripted):
    def change(self, nbytes):
        pass


class Silent(Scripted):
    def statistics(self):
        return {}


def test_counters_that_follow_a_block_have_no_fault_and_end_as_they_were():
    allocator = Scripted()
    assert fault_of_counters(allocator, allocator.hold, BOTH) == ""
    cached = {"reserved_bytes": 1536}
    assert allocator.level == {"requested_bytes": 7, "allocated_bytes": 512, **cached}
    assert allocator.peak == allocator.level


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        (WithoutReset, "the peak of requested_bytes could not be reset"),
        (WithoutFrees, "requested_bytes fell by 0 B when 1,000 B were freed"),
        (WithoutPeaks, "the peak of requested_bytes did not stay when the block was freed"),
        (FrozenPeaks, "the peak of requested_bytes rose by 0 B, and its level by 1,000 B"),
        (Rounding, "requested_bytes rose by 2,000 B for a block of 1,000 B"),
        (Uncounted, "requested_bytes rose by 0 B for a block of 1,000 B"),
    ],
)
def test_a_fault_is_named(kind, fault):
    allocator = kind()
    assert fault_of_counters(allocator, allocator.hold, BOTH) == fault


def test_a_counter_that_the_device_does_not_keep_is_not_asked():
    allocator = Rounding()
    assert fault_of_counters(allocator, allocator.hold, ("allocated",)) == ""


def test_an_allocator_without_statistics_has_no_fault():
    allocator = Silent()
    assert fault_of_counters(allocator, allocator.hold, BOTH) == ""


def test_another_thread_that_allocates_once_is_no_fault():
    allocator, others = Scripted(), [300]

    def hold(nbytes):
        if others:
            allocator.change(others.pop())
        return allocator.hold(nbytes)

    assert fault_of_counters(allocator, hold, BOTH) == ""
    assert others == []

"""Counters that are wrong about a block of a known size are found, whatever is wrong."""

import weakref

import pytest

from pytest_attnmem.backends.counter_backend import fault_of_counters

from .scripted_counters import Block

BOTH = ("requested", "allocated")


class Scripted:
    """The counters of an allocator that rounds to 512 bytes."""

    def __init__(self):
        self.level = {"requested_bytes": 7, "allocated_bytes": 512}
        self.peak = {name: 2 * level for name, level in self.level.items()}

    def hold(self, nbytes):
        block = Block()
        self.change(nbytes)
        weakref.finalize(block, self.change, -nbytes)
        return block

    def change(self, nbytes):
        rounded = 512 * (-(-abs(nbytes) // 512)) * (1 if nbytes > 0 else -1)
        for name, size in (("requested_bytes", nbytes), ("allocated_bytes", rounded)):
            self.level[name] += size
            self.peak[name] = max(self.peak[name], self.level[name])

    def statistics(self):
        kinds = (("current", self.level), ("peak", self.peak))
        return {f"{n}.all.{kind}": v for kind, values in kinds for n, v in values.items()}

    def reset_peaks(self):
        self.peak = dict(self.level)

    def synchronize(self):
        pass


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
        self.peak = dict(self.level)


class FrozenPeaks(Scripted):
    def change(self, nbytes):
        kept = dict(self.peak)
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
    assert allocator.level == allocator.peak == {"requested_bytes": 7, "allocated_bytes": 512}


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

from collections import Counter

import pytest
import torch

from pytest_attnmem.backends.counter_backend import CounterRecorder
from pytest_attnmem.measurement.protocol import Delta


class ScriptedAllocator:
    """A caching allocator in miniature: 512-byte blocks, segments that stay."""

    def __init__(self):
        self.calls = []
        self.made = 0
        self.level = Counter()
        self.peak = Counter()

    def allocate(self, nbytes):
        self.made += 1
        for counter, size in self._sizes(nbytes).items():
            self._change(counter, size)
        grown = max(self.level["allocated_bytes"] - self.level["reserved_bytes"], 0)
        self._change("reserved_bytes", grown)

    def free(self, nbytes):
        for counter, size in self._sizes(nbytes).items():
            self._change(counter, -size)

    def _sizes(self, nbytes):
        return {"requested_bytes": nbytes, "allocated_bytes": -(-nbytes // 512) * 512}

    def _change(self, counter, size):
        self.level[counter] += size
        self.peak[counter] = max(self.peak[counter], self.level[counter])

    def statistics(self):
        self.calls.append("statistics")
        counters = ("requested_bytes", "allocated_bytes", "reserved_bytes")
        return {
            "allocation.all.allocated": self.made,
            **{f"{name}.all.current": self.level[name] for name in counters},
            **{f"{name}.all.peak": self.peak[name] for name in counters},
        }

    def reset_peaks(self):
        self.calls.append("reset")
        self.peak = Counter(self.level)

    def synchronize(self):
        self.calls.append("synchronize")

    def empty_cache(self):
        self.calls.append("empty")
        self._change("reserved_bytes", self.level["allocated_bytes"] - self.level["reserved_bytes"])


@pytest.fixture
def allocator():
    allocator = ScriptedAllocator()
    allocator.allocate(10_000)
    allocator.allocate(50_000)
    allocator.free(50_000)  # an earlier peak, which must not count
    return allocator


def test_the_order_is_synchronize_reset_read_then_synchronize_read(allocator):
    recorder = CounterRecorder(allocator)
    recorder.start()
    recorder.stop()
    assert allocator.calls == ["synchronize", "reset", "statistics", "synchronize", "statistics"]


def test_numbers_are_above_the_start(allocator):
    recorder = CounterRecorder(allocator)
    recorder.start()
    allocator.allocate(1000)
    allocator.allocate(100)
    allocator.free(1000)
    interval = recorder.stop()
    assert interval.requested == Delta(1100, 100)
    assert interval.allocated == Delta(1536, 512)
    assert interval.allocations == 2
    assert interval.problem is None


def test_segments_that_are_already_there_hide_a_need_for_them(allocator):
    recorder = CounterRecorder(allocator)
    recorder.start()
    allocator.allocate(20_000)
    assert recorder.stop().reserved == Delta(0, 0)


def test_freeing_an_earlier_tensor_lowers_the_level(allocator):
    recorder = CounterRecorder(allocator)
    recorder.start()
    allocator.free(10_000)
    assert recorder.stop().requested == Delta(0, -10_000)


def test_a_reset_without_effect_is_a_problem(allocator):
    allocator.reset_peaks = lambda: None
    recorder = CounterRecorder(allocator)
    recorder.start()
    assert recorder.stop().problem == "the peak of reserved_bytes could not be reset" or (
        recorder.stop().problem == "the peak of allocated_bytes could not be reset"
    )


def test_an_allocator_without_statistics_is_a_problem(allocator):
    allocator.statistics = dict
    recorder = CounterRecorder(allocator)
    recorder.start()
    interval = recorder.stop()
    assert interval.problem == "the allocator of the device keeps no statistics"
    assert interval.requested is None


def test_requested_bytes_that_read_zero_are_not_taken_for_zero(allocator):
    recorder = CounterRecorder(allocator, "requested bytes are not counted")
    recorder.start()
    allocator.allocate(1000)
    interval = recorder.stop()
    assert interval.requested is None
    assert interval.missing == "requested bytes are not counted"
    assert interval.allocated == Delta(1024, 1024)


def test_a_device_that_does_not_count_allocations_has_at_least_one(allocator):
    full = allocator.statistics
    allocator.statistics = lambda: {k: v for k, v in full().items() if "allocation." not in k}
    recorder = CounterRecorder(allocator)
    recorder.start()
    allocator.allocate(1)
    assert recorder.stop().allocations == 1
    recorder.start()
    assert recorder.stop().allocations == 0


def test_a_peak_that_the_test_resets_is_not_lost(allocator, monkeypatch):
    monkeypatch.setattr(
        torch._C,
        "_cuda_resetPeakMemoryStats",
        lambda device: allocator.reset_peaks(),
        raising=False,
    )
    plain = torch._C._cuda_resetPeakMemoryStats
    recorder = CounterRecorder(allocator)
    recorder.start()
    allocator.allocate(5000)
    allocator.free(5000)
    torch._C._cuda_resetPeakMemoryStats(0)
    allocator.allocate(100)
    assert recorder.stop().requested == Delta(5000, 100)
    assert torch._C._cuda_resetPeakMemoryStats is plain


def test_out_of_memory_that_was_caught_is_reported(allocator):
    full, ooms = allocator.statistics, []
    allocator.statistics = lambda: {**full(), "num_ooms": 3 + len(ooms)}
    recorder = CounterRecorder(allocator)
    recorder.start()
    assert recorder.stop().out_of_memory == ""
    recorder.start()
    ooms.append(1)
    assert recorder.stop().out_of_memory == "an allocation was refused"

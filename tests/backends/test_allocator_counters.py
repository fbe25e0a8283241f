import pytest
import torch

from pytest_attnmem.backends.counter_backend import CounterRecorder
from pytest_attnmem.measurement.protocol import Delta

from .scripted_counters import ScriptedAllocator


@pytest.fixture
def allocator():
    allocator = ScriptedAllocator()
    allocator.change(10_000)
    allocator.change(50_000)
    allocator.change(-50_000)  # an earlier peak, which must not count
    return allocator


def test_numbers_are_above_the_start(allocator):
    recorder = CounterRecorder(allocator)
    recorder.start()
    allocator.change(1000)
    allocator.change(100)
    allocator.change(-1000)
    interval = recorder.stop()
    assert interval.requested == Delta(1100, 100)
    assert interval.allocated == Delta(1536, 512)
    assert interval.allocations == 2
    assert interval.problem is None


def test_segments_that_are_already_there_hide_a_need_for_them(allocator):
    recorder = CounterRecorder(allocator)
    recorder.start()
    allocator.change(20_000)
    assert recorder.stop().reserved == Delta(0, 0)


def test_freeing_an_earlier_tensor_lowers_the_level(allocator):
    recorder = CounterRecorder(allocator)
    recorder.start()
    allocator.change(-10_000)
    assert recorder.stop().requested == Delta(0, -10_000)


def test_a_reset_without_effect_is_a_problem(allocator):
    allocator.reset_peaks = lambda: None
    recorder = CounterRecorder(allocator)
    recorder.start()
    assert recorder.stop().problem == "the peak of allocated_bytes could not be reset"


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
    allocator.change(5000)
    allocator.change(-5000)
    torch._C._cuda_resetPeakMemoryStats(0)
    allocator.change(100)
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

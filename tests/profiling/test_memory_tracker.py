"""The notebook's tracker and measure_memory, on machines with a GPU and without."""

import _thread
import gc
from dataclasses import replace

import pytest
import torch

from pytest_attnmem import measure, qkv
from pytest_attnmem.errors import AttnMemError, BackendUnavailable
from pytest_attnmem.kernels import standard
from pytest_attnmem.profiling import MemoryTracker, OutOfMemory, measure_memory
from pytest_attnmem.profiling.memory_tracker import peak_of

BACKENDS = ["cpu", "simulated:T4"]
MIB = 1 << 20


@pytest.fixture(params=BACKENDS)
def tracker(request):
    with MemoryTracker(request.param) as opened:
        yield opened


def mebibyte():
    return torch.ones(MIB // 4)


def test_it_follows_what_is_allocated(tracker):
    assert (tracker.current_allocated(), tracker.peak_allocated()) == (0, 0)
    first, second = mebibyte(), mebibyte()
    assert (tracker.current_allocated(), tracker.peak_allocated()) == (2 * MIB, 2 * MIB)
    del second
    assert (tracker.current_allocated(), tracker.peak_allocated()) == (MIB, 2 * MIB)
    del first
    assert (tracker.current_allocated(), tracker.peak_allocated()) == (0, 2 * MIB)


def test_reset_lets_the_peak_be_what_is_allocated(tracker):
    kept, gone = mebibyte(), mebibyte()
    del gone
    tracker.reset()
    assert (tracker.current_allocated(), tracker.peak_allocated()) == (MIB, MIB)
    more = mebibyte()
    del kept
    assert (tracker.current_allocated(), tracker.peak_allocated()) == (MIB, 2 * MIB)
    del more
    tracker.reset()
    assert (tracker.current_allocated(), tracker.peak_allocated()) == (0, 0)


def test_the_notebook_s_arithmetic_gives_the_peak_of_a_call(tracker, request):
    before = mebibyte()
    tracker.reset()
    baseline = tracker.current_allocated()
    before.exp().sum()
    peak = tracker.peak_allocated() - baseline
    backend = request.node.callspec.params["tracker"]
    seen = measure(lambda: before.exp().sum(), backend=backend)
    assert peak == seen.allocated_bytes > MIB


def test_a_measurement_inside_is_a_part_of_it(tracker):
    kept = mebibyte()
    seen = measure(mebibyte, backend=tracker._primed.backend.name)
    assert (seen.unmeasured, seen.peak_bytes) == (None, MIB)
    assert tracker.current_allocated() == 2 * MIB
    del kept, seen
    assert (tracker.current_allocated(), tracker.peak_allocated()) == (0, 2 * MIB)


def test_segments_are_reserved_and_given_back():
    with MemoryTracker("simulated:T4") as tracker:
        assert tracker.reserved() == 0
        block = torch.ones(16 * MIB)
        assert tracker.reserved() == 64 * MIB
        del block
        assert tracker.reserved() == 64 * MIB
        tracker.reset()
        assert tracker.reserved() == 0
    with MemoryTracker("cpu") as tracker:
        mebibyte()
        assert tracker.reserved() is None  # and not 0


@pytest.mark.parametrize(("backend", "nbytes"), [("simulated:T4", 512), ("cpu", 4)])
def test_sizes_are_whole_bytes_as_the_allocator_rounds_them(backend, nbytes):
    with MemoryTracker(backend) as tracker:
        small = torch.ones(1)
        assert tracker.current_allocated() == nbytes
        del small


def test_without_a_gpu_it_is_the_cpu_and_never_0(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with MemoryTracker() as tracker:
        block = mebibyte()
        assert tracker.peak_allocated() == MIB
        del block
    assert measure_memory(mebibyte)[0] == MIB


@pytest.mark.parametrize("end", ["close", "with", "drop"])
def test_it_ends(end):
    tracker = MemoryTracker("cpu")
    assert not gc.isenabled()
    if end == "close":
        tracker.close()
        tracker.close()
    elif end == "with":
        with tracker:
            pass
    else:
        del tracker
    assert gc.isenabled()
    assert measure(mebibyte, backend="cpu").unmeasured is None


def test_a_closed_one_says_so_and_a_backend_that_is_none_is_refused():
    tracker = MemoryTracker("cpu")
    tracker.close()
    asked = (tracker.reset, tracker.current_allocated, tracker.peak_allocated, tracker.reserved)
    for ask in asked:
        with pytest.raises(AttnMemError) as caught:
            ask()
        assert str(caught.value) == "the tracker is closed; make another MemoryTracker()"
    with pytest.raises(BackendUnavailable, match="unknown backend 'gpu'; expected one of auto"):
        MemoryTracker("gpu")


def test_what_it_cannot_see_is_no_0():
    with MemoryTracker("cpu") as tracker:
        done = _thread.allocate_lock()
        done.acquire()
        _thread.start_new_thread(lambda: (mebibyte(), done.release()), ())
        done.acquire()
        with pytest.raises(AttnMemError) as caught:
            tracker.peak_allocated()
    assert str(caught.value) == (
        "memory is not measured on cpu: a thread was started, and the cpu backend sees the test's"
        " own thread and those that it starts"
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_measure_memory_gives_the_peak_and_the_result(backend):
    inputs = qkv(1, 2, 64, 8)
    peak, out = measure_memory(standard.attention, *inputs, causal=False, backend=backend)
    assert peak == 2 * (2 * 64 * 64 * 4) + 2 * 64 * 8 * 4
    assert out.shape == (1, 2, 64, 8)
    assert measure_memory(lambda: "result", backend=backend) == (0, "result")


def test_out_of_memory_is_an_error_of_its_own():
    with pytest.raises(OutOfMemory) as caught:
        measure_memory(lambda: torch.empty(1 << 46), backend="cpu")
    assert isinstance(caught.value, RuntimeError)  # the notebook's cells expect it
    text = "out of memory on cpu: tried to allocate 256.0 TiB at test_memory_tracker.py:"
    assert str(caught.value).startswith(text)
    with pytest.raises(OutOfMemory, match=r"out of memory on simulated:T4: needs 64\.0 GiB more"):
        measure_memory(lambda: torch.empty(1 << 34), backend="simulated:T4")


def test_other_errors_are_raised_as_they_are():
    def faulty():
        raise RuntimeError("of the function's own")

    with pytest.raises(RuntimeError, match="of the function's own") as caught:
        measure_memory(faulty, backend="cpu")
    assert not isinstance(caught.value, AttnMemError)


def test_a_device_that_counts_nothing_says_so(seen):
    with pytest.raises(AttnMemError) as caught:
        peak_of(replace(seen, peak_bytes=None))
    assert str(caught.value) == "memory is not measured on cpu: the device does not count it"
    with pytest.raises(AttnMemError, match="is not measured on cpu: cudaMallocAsync"):
        peak_of(replace(seen, peak_bytes=None, missing="cudaMallocAsync"))

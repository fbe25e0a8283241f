"""The protocol, against a scripted backend: order of calls, nesting, pauses, errors."""

import gc
import threading
import weakref

import pytest
import torch
from scripted_backend import ScriptedBackend as Scripted

from pytest_attnmem.backends.cpu import Cpu
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.measurement import METRICS
from pytest_attnmem.measurement.protocol import Delta, Interval
from pytest_attnmem.measurement.window_stack import nothing_left_open, pause, window


def interval(peak, final, *, allocations=1, **others):
    delta = Delta(peak, final)
    return Interval(delta, delta, None, allocations, **others)


def numbers(closed):
    return closed.measurement.peak_bytes, closed.measurement.retained_bytes


def test_a_window_is_one_interval():
    backend = Scripted(interval(10, 4, allocations=3))
    with window(backend, "allocated", workspace=7) as opened:
        pass
    m = opened.measurement
    assert backend.calls == ["gauge", "empty", "start", "stop"]
    assert [m.value(metric) for metric in METRICS] == [10, 10, None, 4]
    assert (m.allocations, m.workspace_bytes, m.kinds) == (3, 7, ("scripted",))
    assert (m.unmeasured, m.out_of_memory, m.held) == (None, None, ())


@pytest.mark.parametrize(
    ("intervals", "inside", "outside"),
    [
        ([(100, 60), (30, 10), (5, 0)], (30, 10), (100, 70)),
        ([(60, 60), (50, 0), (0, -60)], (50, 0), (110, 0)),  # the outer peak is inside
    ],
)
def test_a_window_in_a_window_shares_the_recorder_and_splits_its_interval(
    intervals, inside, outside
):
    backend = Scripted(*[interval(*one) for one in intervals])
    with window(backend) as outer, window(backend) as inner:
        pass
    assert backend.calls == ["gauge", "empty", "start", "stop", "start", "stop", "start", "stop"]
    assert numbers(inner) == inside
    assert numbers(outer) == outside


def test_windows_on_different_devices_have_separate_recorders():
    first, second = Scripted(interval(1, 1)), Scripted(interval(2, 2), device="scripted:1")
    with window(first) as one, window(second) as two:
        pass
    assert (one.measurement.peak_bytes, two.measurement.peak_bytes) == (1, 2)


def test_what_happens_in_a_pause_counts_in_no_window():
    backend = Scripted(interval(10, 10), interval(3, 2))
    with window(backend) as opened, pause():
        backend.calls.append("inputs")
    assert backend.calls == ["gauge", "empty", "start", "stop", "inputs", "start", "stop"]
    assert numbers(opened) == (13, 12)


def test_a_pause_without_a_window_is_nothing():
    storage = torch.empty(1).untyped_storage()
    uses = torch._C._storage_Use_Count(storage._cdata)
    with pause() as keep:
        keep(storage)
        assert torch._C._storage_Use_Count(storage._cdata) == uses


def test_a_pause_pauses_every_backend():
    first, second = Scripted(*[interval(1, 1)] * 2), Scripted(*[interval(1, 1)] * 2, name="other")
    with window(first), window(second), pause():
        assert first.calls[-1] == second.calls[-1] == "stop"
    assert first.calls[-2:] == second.calls[-2:] == ["start", "stop"]


def test_inputs_count_neither_when_allocated_nor_when_freed():
    with window(Cpu()) as opened:
        with pause() as keep:
            x = torch.empty(1000)
            keep(x.untyped_storage())
        y = torch.empty(10)
        del x
        z = torch.empty(20)
    assert opened.measurement.peak_bytes == opened.measurement.retained_bytes == 120
    del y, z


def test_unused_inputs_are_freed_at_the_next_pause():
    freed = []

    class Storage:
        def __init__(self, tensor):
            self._storage = tensor.untyped_storage()
            self._cdata = self._storage._cdata

        def __del__(self):
            freed.append(1)

    with window(Cpu()):
        for _ in range(3):
            with pause() as keep:
                keep(Storage(torch.empty(1000)))
        assert len(freed) == 2
    assert len(freed) == 3


def test_an_interval_that_cannot_be_trusted_taints_its_windows_and_no_other():
    backend = Scripted(interval(1, 1), interval(1, 1, problem="lost"), interval(1, 1))
    with window(backend) as outer, window(backend) as inner:
        pass
    assert inner.measurement.unmeasured == outer.measurement.unmeasured == "lost"
    with window(Scripted(interval(1, 1))) as other:
        pass
    assert other.measurement.unmeasured is None


def test_a_number_unknown_in_one_interval_is_unknown_in_all():
    backend = Scripted(
        interval(1, 1), Interval(None, Delta(2, 2), None, 1, missing="not here"), interval(1, 1)
    )
    with window(backend) as outer, window(backend):
        pass
    m = outer.measurement
    assert (m.peak_bytes, m.retained_bytes, m.allocated_bytes) == (None, None, 4)
    assert m.missing == "not here"


@pytest.mark.parametrize("caught", ["", "refused"])
def test_out_of_memory_is_noted_and_goes_on(caught):
    backend = Scripted(interval(9, 9, out_of_memory=caught))
    with pytest.raises(MemoryError), window(backend) as opened:
        raise MemoryError("tried to allocate 1 GiB")
    assert opened.measurement.out_of_memory == "tried to allocate 1 GiB"
    assert opened.measurement.recovered == ""  # though the device counts what was caught
    assert opened.measurement.peak_bytes == 9


def test_out_of_memory_is_found_in_the_cause_of_an_error():
    with pytest.raises(ValueError, match="x"), window(Scripted(interval(1, 1))) as opened:
        raise ValueError("x") from MemoryError("no more")
    assert opened.measurement.out_of_memory == "no more"


def test_out_of_memory_that_was_caught_is_known_where_the_device_counts_it():
    with window(Scripted(interval(1, 1, out_of_memory="refused"))) as opened:
        pass
    assert (opened.measurement.out_of_memory, opened.measurement.recovered) == (None, "refused")


def test_out_of_memory_frees_the_tensors_of_its_frames():
    tensors = []

    def body():
        big = torch.empty(1000)
        tensors.append(torch._C._storage_Use_Count(big.untyped_storage()._cdata))
        watched.append(big.untyped_storage())
        raise MemoryError("no more")

    watched = []
    with pytest.raises(MemoryError) as kept, window(Scripted(interval(1, 1))):
        body()
    assert kept.value.__traceback__ is not None
    assert torch._C._storage_Use_Count(watched[0]._cdata) == 1


def test_other_errors_go_on_and_leave_nothing_open():
    backend = Scripted(interval(1, 1), interval(1, 1))
    with pytest.raises(ValueError, match="x"), window(backend) as opened:
        raise ValueError("x")
    assert opened.measurement.out_of_memory is None
    with window(backend):
        pass
    assert backend.calls.count("gauge") == 2


def test_held_tensors_are_those_at_the_peak_of_the_window():
    old, own, later = (Held(n, (n,), "uint8", "empty", "", "") for n in (5, 6, 7))
    backend = Scripted(
        interval(5, 5, held=((0, old),), first_allocation=0),
        interval(6, 6, held=((0, old), (1, own)), first_allocation=1),
        interval(7, 0, held=((0, old), (1, own), (2, later)), first_allocation=2),
    )
    with window(backend, trace=True) as outer, window(backend, trace=True) as inner:
        pass
    assert backend.calls[0] == "tracer"
    assert inner.measurement.held == (own,)
    assert outer.measurement.held == (later, own, old)


@pytest.mark.parametrize("enabled", [True, False])
def test_automatic_collection_is_off_inside_and_as_before_after(enabled):
    before = gc.isenabled()
    try:
        gc.enable() if enabled else gc.disable()
        with window(Scripted(interval(1, 1))):
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
    finally:
        gc.enable() if before else gc.disable()


def test_garbage_is_collected_before_the_window_and_not_inside():
    class Node:
        pass

    def cycle():
        node = Node()
        node.itself = node
        node.tensor = torch.empty(1000)

    cycle()
    with window(Cpu()) as opened:
        cycle()
    assert opened.measurement.retained_bytes == 4000


@pytest.mark.parametrize(("reason", "collected"), [("", True), ("'cuda' is named", False)])
def test_a_run_that_starts_again_on_an_emptied_device_collects_no_garbage(reason, collected):
    backend = Scripted(interval(0, 0))
    backend.starts_again = reason

    class Cycle:
        pass

    cycle = Cycle()
    cycle.itself = cycle
    left = weakref.ref(cycle)
    gc.disable()
    try:
        del cycle
        with window(backend):
            assert (left() is None) is collected
    finally:
        gc.enable()


def test_another_thread_measures_separately():
    numbers = []

    def body():
        with window(Cpu()) as opened:
            torch.empty(100)
        numbers.append(opened.measurement.peak_bytes)

    with window(Scripted(interval(1, 1))):
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
    assert numbers == [400]


def test_reserved_bytes_begin_with_an_empty_cache_in_an_inner_window_too():
    backend = Scripted(*[interval(1, 1)] * 3)
    with window(backend), window(backend, "reserved"):
        pass
    assert backend.calls[:6] == ["gauge", "empty", "start", "stop", "empty", "start"]


def test_windows_may_end_in_the_order_they_began():
    backend = Scripted(interval(10, 10), interval(20, 20), interval(5, 5))
    first, second = window(backend), window(backend)
    one, two = first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()
    assert (one.measurement.peak_bytes, two.measurement.peak_bytes) == (30, 25)


def test_an_unfinished_generator_leaves_no_window_open():
    backend = Scripted(*[interval(1, 1)] * 4)

    def suspended():
        with window(backend):
            yield

    with window(backend) as outer:
        generator = suspended()
        with nothing_left_open():
            next(generator)
        assert outer.measurement is None
        generator.close()
    assert outer.measurement.peak_bytes == 3
    with nothing_left_open():
        generator = suspended()
        next(generator)
    assert gc.isenabled()
    generator.close()

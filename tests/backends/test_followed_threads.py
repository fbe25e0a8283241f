"""Threads that a measured body starts on the CPU, whose bytes add up in their order."""

import ctypes
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from pytest_attnmem.backends.cpu import Cpu
from pytest_attnmem.backends.cpu_profilers import KinetoProfiler, LegacyProfiler
from pytest_attnmem.backends.followed_threads import _LOCALS, _clear_locals
from pytest_attnmem.measurement.protocol import Delta

from .cpu_intervals import SEES, recorded


def run(target, name=None):
    thread = threading.Thread(target=target, name=name)
    thread.start()
    thread.join()


def test_a_tensor_of_a_thread_counts_until_another_thread_frees_it():
    kept = []

    def body():
        run(lambda: kept.append(torch.empty(1000)))
        held = torch.empty(500)
        kept.clear()
        torch.empty(100)
        del held

    interval = recorded(body)
    assert interval.requested == Delta(6000, 0)
    assert interval.allocations == 3
    assert interval.problem is None


def test_a_thread_of_a_thread():
    def outer():
        kept = torch.empty(10)
        run(lambda: torch.empty(1000))
        del kept

    assert recorded(lambda: run(outer)).requested == Delta(4040, 0)


def test_the_thread_of_tqdm_may_go_on():
    kind = type("TMonitor", (threading.Thread,), {"__module__": "tqdm._monitor"})
    go = threading.Event()
    thread = kind(target=go.wait, daemon=True)
    interval = recorded(lambda: (thread.start(), torch.empty(1000)))
    go.set()
    thread.join()
    assert (interval.requested, interval.problem) == (Delta(4000, 0), None)


def test_tensors_of_a_pool():
    def body():
        with ThreadPoolExecutor(4) as pool:
            kept.extend(pool.map(torch.empty, range(100, 150)))

    kept = []
    assert recorded(body).requested == Delta(4 * sum(range(100, 150)), 4 * sum(range(100, 150)))


def test_a_backward_pass_in_a_thread_is_as_one_outside():
    def step():
        x = torch.ones(64, 64, requires_grad=True)
        (x @ x).softmax(-1).sum().backward()

    step()
    assert recorded(lambda: run(step)) == recorded(step)


def test_what_a_thread_keeps_in_a_local_is_freed_with_it():
    local = threading.local()

    def work():
        local.kept = torch.empty(5000)

    def body():
        run(work)
        torch.empty(100)

    assert recorded(body).requested == Delta(20_000, 0)


def test_the_locals_of_a_thread_are_released_once():
    counts = []

    def work():
        threading.local().kept = torch.empty(10)
        state = ctypes.cast(_LOCALS(), ctypes.py_object).value
        counts.append(sys.getrefcount(state))
        _clear_locals()
        counts.append(sys.getrefcount(state))

    run(work)
    assert counts[0] == counts[1]


def test_a_thread_that_has_not_come_to_its_function_is_a_problem():
    go = threading.Event()

    def waits(frame, event, _):
        if event == "call" and frame.f_code.co_name == "inside":
            go.wait(10)

    thread = threading.Thread(target=lambda: torch.empty(10), name="late")
    threading.setprofile(waits)
    try:
        interval = recorded(lambda: thread.start())
    finally:
        threading.setprofile(None)
        go.set()
        thread.join()
    assert interval.problem == "thread 'late' still runs, and its allocations are not known"


def test_a_thread_between_two_intervals_counts_in_the_second_alone():
    allocated, proceed = threading.Event(), threading.Event()

    def work():
        torch.empty(5000)
        allocated.set()
        proceed.wait(10)
        torch.empty(70)

    recorder = Cpu(LegacyProfiler).gauge()
    recorder.start()
    thread = threading.Thread(target=work, name="slow")
    thread.start()
    assert allocated.wait(10)
    first = recorder.stop()
    recorder.start()
    proceed.set()
    thread.join()
    second = recorder.stop()
    assert first.problem == "thread 'slow' still runs, and its allocations are not known"
    assert (second.problem, second.requested) == (None, Delta(280, 0))


def test_a_thread_that_fails_is_a_problem(monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    def work():
        kept = torch.empty(100)
        raise ValueError(kept)

    assert recorded(lambda: run(work, "failing")).problem == (
        "thread 'failing' raised ValueError, and what it then frees is not seen"
    )


def test_a_profiler_of_a_thread_works_and_is_a_problem():
    profiles = []

    def work():
        with torch.autograd.profiler.profile() as profile:
            torch.ones(5)
        profiles.append(profile)

    assert recorded(lambda: run(work, "profiled")).problem == (
        "thread 'profiled' started a profiler, which takes the place of ours"
    )
    assert "aten::ones" in {event.name for event in profiles[0].function_events}


def test_a_run_that_the_program_gave_a_thread_is_its_own_again():
    thread = threading.Thread()
    thread.run = given = lambda: torch.empty(10)

    def body():
        thread.start()
        thread.join()

    assert recorded(body).requested == Delta(40, 0)
    assert thread.run is given


@pytest.mark.parametrize("count", [1, 2])
def test_one_profiler_of_a_process_does_not_see_them(count):
    def body():
        for _ in range(count):
            run(lambda: torch.empty(10))

    threads = "a thread was" if count == 1 else "2 threads were"
    assert recorded(body, KinetoProfiler).problem == f"{threads} started, {SEES}"


def test_a_start_that_the_program_wraps_and_keeps_follows_no_thread_later(monkeypatch):
    def body():
        start = threading.Thread.start
        monkeypatch.setattr(threading.Thread, "start", lambda thread: start(thread))

    recorded(body)
    thread = threading.Thread(target=len, args=("",))
    thread.start()
    thread.join()
    assert "run" not in vars(thread)

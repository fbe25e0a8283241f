"""The watch for other threads, and the threads that it ignores."""

import gc
import sys
import threading
import time
import weakref
from _thread import allocate_lock, start_new_thread

import pytest

from pytest_attnmem.backends import cpu_threads
from pytest_attnmem.backends.cpu_threads import ThreadWatch

from .cpu_intervals import SEES

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the clocks of threads are Linux's")


class Server:
    """A thread that runs on request."""

    def __init__(self):
        self.waits, self.over, self.read = allocate_lock(), allocate_lock(), 0

    def receive(self):
        self.over.release()  # it has begun
        while self.waits.acquire():
            self.read += spin()
            self.over.release()


class WorkerGateway(Server):
    """Named like execnet's class, whose thread reads pytest-xdist's messages to a worker."""


@pytest.fixture
def serving():
    """Starts a thread that ``threading`` does not know; returns a function that has it run once."""

    def start(server):
        server.waits.acquire()
        server.over.acquire()
        start_new_thread(server.receive, ())
        server.over.acquire()
        return lambda: (server.waits.release(), server.over.acquire())

    return start


def spin():
    """Runs for far longer than a wait that times out."""
    until = time.thread_time_ns() + 1_000_000
    while time.thread_time_ns() < until:
        pass
    return 1


def watched(body):
    watch = ThreadWatch()
    watch.start()
    body()
    return watch.stop()


def ran(name):
    return f"thread {name!r} ran meanwhile, {SEES}"


def waiting(kind=threading.Thread, module="", qualname="", name=None):
    """Returns what has a thread, which waits already, run to its end."""
    go = threading.Event()

    def run():
        go.wait()  # may take less time than is noticed if the clock outlives the join
        sum(range(100_000))

    run.__module__, run.__qualname__ = module, qualname
    thread = kind(target=run, name=name)
    thread.start()
    return lambda: (go.set(), thread.join())


@LINUX
def test_a_raw_thread_from_before_that_runs(serving):
    serve = serving(Server())
    assert watched(lambda: None) is None
    assert watched(serve) == ran("receive")
    assert watched(lambda: None) is None


@LINUX
def test_a_thread_from_before_that_runs_and_ends():
    assert watched(waiting(name="brief")) == ran("brief")


@LINUX
def test_a_raw_thread_that_was_started_before_and_begins_meanwhile(serving, monkeypatch):
    watch = ThreadWatch()
    with monkeypatch.context() as patch:
        patch.setattr(cpu_threads, "_unknown", dict)  # it is in no Python code yet
        serve = serving(Server())
        watch.start()
    serve()
    assert watch.stop() == ran("receive")


def test_the_thread_that_feeds_a_worker_of_xdist_may_run(serving):
    gateway = WorkerGateway()
    assert watched(serving(gateway)) is None
    assert gateway.read == 1


def test_the_thread_of_tqdm_may_run():
    kind = type("TMonitor", (threading.Thread,), {"__module__": "tqdm._monitor"})
    assert watched(waiting(kind)) is None


def test_the_server_of_rerunfailures_may_run():
    server = waiting(module="pytest_rerunfailures", qualname="ServerStatusDB.run_server")
    assert watched(server) is None


def test_a_system_without_clocks_of_threads(serving, monkeypatch):
    monkeypatch.setattr(cpu_threads.sys, "platform", "darwin")
    assert watched(serving(Server())) is None


@LINUX
def test_without_the_gil_the_threads_of_threading_are_watched(monkeypatch):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    go, over = threading.Event(), threading.Event()

    def work():
        go.wait()
        spin()
        over.set()
        go.wait()

    thread = threading.Thread(target=work, name="known")
    thread.start()
    assert watched(lambda: (go.set(), over.wait(), thread.join())) == ran("known")


def test_a_watch_keeps_no_frame_alive():
    class Tensor:
        pass

    def program():
        tensor = Tensor()
        assert watched(lambda: None) is None
        return weakref.ref(tensor)

    gc.disable()
    try:
        assert program()() is None
    finally:
        gc.enable()

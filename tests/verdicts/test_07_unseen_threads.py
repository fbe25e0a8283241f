"""Every thread that runs Python is noticed on the cpu, however it was started."""

HEAD = """
import _thread
import concurrent.futures
import multiprocessing.dummy
import threading
import time
import pytest
import torch
from _thread import start_new_thread as early

def work(): torch.ones(16 << 20)

def wait(done): done.acquire()

budget = pytest.mark.memory_budget("1 KiB")
"""

#: What a body does after it has allocated four bytes itself.
BODIES = {
    "raw": "done = raw(_thread.start_new_thread)",
    "kept from before": "done = raw(early)",
    "no hook": "threading.setprofile(None); run(threading.Thread(target=work))",
    "another hook": "threading.setprofile(lambda *_: None); run(threading.Thread(target=work))",
    "alive": "_thread.start_new_thread(linger, ())",
    "pool": "concurrent.futures.ThreadPoolExecutor(1).submit(work).result()",
    "dummy": "with multiprocessing.dummy.Pool(1) as pool: pool.apply(work)",
}
HELP = """
def raw(start):
    done = _thread.allocate_lock()
    done.acquire()
    start(lambda: (work(), done.release()), ())
    done.acquire()

def run(thread):
    try:
        thread.start()
        thread.join()
    finally:
        threading.setprofile(None)

over = _thread.allocate_lock()
over.acquire()

def linger():
    work()
    over.acquire()
"""
SEES = "and the cpu backend sees the test's own thread only"


def test_a_thread_that_the_body_starts(suite):
    names = {name: f"test_{place}" for place, name in enumerate(BODIES)}
    bodies = (
        f"\n@budget\ndef {names[name]}():\n    torch.empty(1)\n    {body}\n"
        for name, body in BODIES.items()
    )
    suite.write(HEAD + HELP + "".join(bodies) + "\ndef test_end(): over.release()\n")
    ran = suite.run()
    assert ran.outcomes == {"passed": len(BODIES) + 1}
    for name, test in names.items():
        outcome = ran.outcome(test)
        if name == "dummy":  # whose pool has threads that look after the others
            assert outcome.endswith(f" threads were started, {SEES}")
        else:
            assert outcome == f"not enforced: a thread was started, {SEES}"


def test_a_thread_from_before_the_body(suite):
    suite.write(
        HEAD
        + """
@pytest.fixture
def pool():
    with concurrent.futures.ThreadPoolExecutor(1, "pool") as pool:
        pool.submit(work).result()
        yield pool

@budget
def test_pool(pool):
    torch.empty(1)
    pool.submit(work).result()
"""
    )
    ran = suite.run()
    assert ran.outcomes == {"passed": 1}
    assert ran.outcome("test_pool") == f"not enforced: thread 'pool_0' ran meanwhile, {SEES}"


def test_threads_of_kernels_are_no_threads_of_the_program(suite):
    suite.write(
        HEAD
        + """
@pytest.mark.memory_budget("64 MiB")
def test_it():
    torch.set_num_threads(4)
    a = torch.ones(512, 512, requires_grad=True)
    (a @ a).exp().sum().backward()
    torch.set_num_threads(1)
"""
    )
    assert suite.run().outcome("test_it") == "within"

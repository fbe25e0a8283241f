"""Every thread that runs Python is noticed on the cpu, however it was started."""

HEAD = """
import _thread
import concurrent.futures
import multiprocessing.dummy
import threading
import pytest
import torch
from _thread import start_new_thread as early

def work(): torch.ones(16 << 20)

budget = pytest.mark.memory_budget("1 KiB")
"""

#: Bodies, after they have allocated four bytes themselves.
BODIES = {
    "no hook": "threading.setprofile(None); run(threading.Thread(target=work))",
    "another hook": "threading.setprofile(lambda *_: None); run(threading.Thread(target=work))",
    "pool": "concurrent.futures.ThreadPoolExecutor(1).submit(work).result()",
    "dummy": "with multiprocessing.dummy.Pool(1) as pool: pool.apply(work)",
    # Nobody can wait for the end of these, which may run in the next test.
    "raw": "done = raw(_thread.start_new_thread)",
    "kept from before": "done = raw(early)",
    "alive": "_thread.start_new_thread(linger, ())",
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
SEES = "and the cpu backend sees the test's own thread and those that it starts"
RAW = ("raw", "kept from before", "alive")


def test_a_thread_that_the_body_starts(suite):
    names = {name: f"test_{place}" for place, name in enumerate(BODIES)}
    bodies = (
        f"\n@budget\ndef {names[name]}():\n    torch.empty(1)\n    {body}\n"
        for name, body in BODIES.items()
    )
    ran = suite.tests(f"{HELP}{''.join(bodies)}\ndef test_end(): over.release()\n").run(
        "--attnmem-strict=off"
    )
    assert ran.outcomes == {"passed": len(RAW) + 1, "failed": len(BODIES) - len(RAW)}
    for name, test in names.items():
        outcome = ran.outcome(test)
        if name in RAW:
            assert outcome == f"not enforced: a thread was started, {SEES}"
        else:
            assert outcome == "over: peak 64.0 MiB exceeds budget 1.0 KiB (65536.0x) on cpu"
            assert ran.row(test)["peak_bytes"] == 4 * (16 << 20)


def test_a_fork_of_a_script(suite):
    suite.tests("""
@torch.jit.script
def work(x: torch.Tensor):
    return (torch.ones(1 << 20) + x).sum()

@torch.jit.script
def fork(x: torch.Tensor):
    return torch.jit.wait(torch.jit.fork(work, x))

x = torch.ones(1)
fork(x)  # the threads of the pool are there

@budget
def test_it(): fork(x)
""")
    assert suite.run().outcome("test_it") == f"not enforced: a thread was started, {SEES}"


def test_threads_of_kernels_are_no_threads_of_the_program(suite):
    suite.tests("""
@pytest.mark.memory_budget("64 MiB")
def test_it():
    torch.set_num_threads(4)
    a = torch.ones(512, 512, requires_grad=True)
    (a @ a).exp().sum().backward()
    torch.set_num_threads(1)
""")
    assert suite.run().outcome("test_it") == "within"

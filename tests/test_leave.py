"""The end of a process of ours."""

import atexit
import os
import sys
import threading

import pytest

from pytest_attnmem.leave import leave

CODE = """
import atexit, sys
from pytest_attnmem.leave import leave

class Freed:
    def __del__(self):
        print("freed")

kept = Freed()
atexit.register(print, "registered")
print("printed", end=" ")
print("an error", file=sys.stderr, end="")
leave(3)
"""


def test_what_was_printed_and_registered_is_there_and_no_object_is_freed(pytester):
    done = pytester.run(sys.executable, "-c", CODE)
    assert done.ret == 3
    assert done.outlines == ["printed registered"]
    assert done.errlines == ["an error"]


def test_a_thread_of_the_program_ends_first(monkeypatch):
    monkeypatch.setattr(os, "_exit", lambda code: pytest.fail("the thread was cut off"))
    monkeypatch.setattr(atexit, "_run_exitfuncs", lambda: pytest.fail("too early"))
    go = threading.Event()
    thread = threading.Thread(target=go.wait)
    thread.start()
    leave(0)
    go.set()
    thread.join()

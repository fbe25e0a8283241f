"""The process of a backend: it may refuse, die or hang, and nothing of it stays."""

import os
import time
from pathlib import Path

import pytest

from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.verification import peer
from pytest_attnmem.verification.comparison import Peaks
from pytest_attnmem.verification.peer import Peer


@pytest.fixture
def started(tmp_path, monkeypatch):
    monkeypatch.setattr(peer, "_MODULE", "scripted_server")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    peers = []

    def start(kind="scripted"):
        peers.append(Peer(kind, None, {}, tmp_path))
        peers[-1].start(time.monotonic() + 60)
        return peers[-1]

    yield start
    for one in peers:
        one.end()


def soon():
    return time.monotonic() + 60


def test_a_process_that_dies_is_replaced_for_the_next_workload(started):
    one = started()
    assert one.greeting["versions"]["torch"] == "2.13.0"
    first = one._process.pid
    assert one.ask("dies", soon()) == ""
    assert one.answer(soon()) == Peaks(problem="the process ended with signal 9: out of luck")
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    assert one.ask("four", soon()) == ""
    assert one.answer(soon()) == Peaks(4, 512, 2048)


def test_a_process_that_hangs_is_ended(started):
    one = started()
    hanging = one._process.pid
    assert one.ask("hangs", soon()) == ""
    assert one.answer(time.monotonic()) == Peaks(problem="no answer in time")
    with pytest.raises(ProcessLookupError):
        os.kill(hanging, 0)


def test_a_refusal_is_one_line(started):
    with pytest.raises(BackendUnavailable) as error:
        started("refuses")
    assert str(error.value) == "refuses: it has no device"

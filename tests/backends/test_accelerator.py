import pytest
import torch
from unavailable import refusal

from pytest_attnmem.backends.accelerator import open_backend
from pytest_attnmem.measurement.protocol import Delta

from .scripted_counters import ScriptedCounters


class ScriptedAccelerator(ScriptedCounters):
    """``torch.accelerator`` as far as the backend uses it."""

    def current_accelerator(self):
        return torch.device("xpu")

    def current_device_index(self):
        return 0


def test_it_measures_above_the_start():
    accelerator = ScriptedAccelerator()
    accelerator.allocate(100)
    recorder = open_backend("", accelerator).gauge()
    recorder.start()
    accelerator.allocate(50)
    accelerator.allocate(-50)
    interval = recorder.stop()
    assert interval.requested == interval.allocated == Delta(50, 0)
    assert interval.allocations == 1  # at least: the device counts none
    recorder.start()
    assert recorder.stop().allocations == 0


def test_a_device_that_does_not_count_requested_bytes():
    accelerator = ScriptedAccelerator(requested=False)
    recorder = open_backend("", accelerator).gauge()
    recorder.start()
    accelerator.allocate(50)
    interval = recorder.stop()
    assert interval.requested is None
    assert interval.missing == "requested bytes are not counted on xpu:0; metric='allocated' is"
    assert interval.allocated == Delta(50, 50)


def test_priming_reports_the_bytes_that_stay():
    accelerator = ScriptedAccelerator()
    backend = open_backend("", accelerator)
    backend._exercise = lambda device, dtype: accelerator.allocate(64)
    backend._hold = accelerator.hold
    assert backend.prime() == 64


def test_priming_refuses_counters_that_are_wrong_about_a_known_block():
    accelerator = ScriptedAccelerator(requested=False)
    backend = open_backend("", accelerator)
    backend._exercise = lambda device, dtype: None
    backend._hold = lambda device, nbytes: accelerator.hold(device, nbytes // 2)
    assert refusal(backend.prime) == (
        f"backend 'accelerator' cannot measure here: on torch {torch.__version__} allocated_bytes"
        " rose by 500 B for a block of 1,000 B"
    )


@pytest.mark.parametrize(
    ("argument", "device"), [("", "xpu:0"), ("1", "xpu:1"), ("xpu", "xpu:0"), ("xpu:1", "xpu:1")]
)
def test_the_device_asked_for(argument, device):
    backend = open_backend(argument, ScriptedAccelerator())
    assert (backend.device, backend.kinds) == (device, ("xpu", "accelerator"))


@pytest.mark.parametrize(
    ("argument", "accelerator", "why"),
    [
        ("mps", ScriptedAccelerator(), "the device here is 'xpu', not 'mps'"),
        ("2", ScriptedAccelerator(), "it has no device 2; expected a number below 2"),
        ("", ScriptedAccelerator(available=False), "torch sees no accelerator"),
        ("", object(), f"torch {torch.__version__} lacks torch.accelerator.memory_stats"),
    ],
    ids=["another", "no such number", "none", "an old torch"],
)
def test_a_missing_device(argument, accelerator, why):
    text = refusal(open_backend, argument, accelerator)
    assert text == f"backend 'accelerator' cannot measure here: {why}"


def test_out_of_memory():
    backend = open_backend("", ScriptedAccelerator())
    assert backend.out_of_memory(torch.OutOfMemoryError("XPU out of memory.\nmore")) == (
        "XPU out of memory."
    )
    assert backend.out_of_memory(RuntimeError("no")) is None

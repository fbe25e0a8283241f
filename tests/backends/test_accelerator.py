import pytest
import torch

from pytest_attnmem.backends.accelerator import Accelerator, open_backend
from pytest_attnmem.errors import BackendUnavailable
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
    assert interval.allocations == 1


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
    exercise = lambda device, dtype: accelerator.allocate(64)  # noqa: E731
    assert Accelerator("xpu", 0, accelerator, exercise, accelerator.hold).prime() == 64


def test_priming_refuses_counters_that_are_wrong_about_a_known_block():
    accelerator = ScriptedAccelerator(requested=False)
    hold = lambda device, nbytes: accelerator.hold(device, nbytes // 2)  # noqa: E731
    with pytest.raises(BackendUnavailable) as refused:
        Accelerator("xpu", 0, accelerator, lambda device, dtype: None, hold).prime()
    assert str(refused.value) == (
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
    ("argument", "why"),
    [
        ("mps", "the device here is 'xpu', not 'mps'"),
        ("2", "it has no device 2; expected a number below 2"),
    ],
)
def test_a_missing_device(argument, why):
    with pytest.raises(BackendUnavailable) as refused:
        open_backend(argument, ScriptedAccelerator())
    assert str(refused.value) == f"backend 'accelerator' cannot measure here: {why}"


def test_no_accelerator():
    with pytest.raises(BackendUnavailable, match="torch sees no accelerator"):
        open_backend("", ScriptedAccelerator(available=False))


def test_a_torch_that_is_too_old():
    with pytest.raises(BackendUnavailable, match=r"lacks torch\.accelerator\.memory_stats"):
        open_backend("", object())


def test_out_of_memory():
    backend = open_backend("", ScriptedAccelerator())
    assert backend.out_of_memory(torch.OutOfMemoryError("XPU out of memory.\nmore")) == (
        "XPU out of memory."
    )
    assert backend.out_of_memory(RuntimeError("no")) is None

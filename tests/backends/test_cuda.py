"""The CUDA backend's protocol against a scripted ``torch.cuda``; on a device, see tests/gpu."""

import re

import pytest
import torch
from unavailable import refusal

from pytest_attnmem.backends.cuda import open_backend
from pytest_attnmem.measurement.protocol import Delta

from .scripted_counters import ScriptedCounters


class ScriptedCuda(ScriptedCounters):
    """``torch.cuda`` as far as the backend uses it, with a log of its calls."""

    def __init__(self, *, available=True, capability=(9, 0), allocator="native"):
        super().__init__(available=available)
        self.calls = []
        self.capability, self.allocator = capability, allocator
        self.initialized = False

    def current_device(self):
        return 1

    def get_device_capability(self, index):
        return self.capability

    def get_allocator_backend(self):
        return self.allocator

    def init(self):
        self.calls.append("init")
        self.initialized = True

    def memory_stats(self, index):
        self.calls.append(f"memory_stats({index})")
        if not self.initialized:
            return {}
        stats = super().memory_stats(index)
        if self.allocator != "native":
            stats.update(dict.fromkeys([name for name in stats if "requested" in name], 0))
        return {"allocation.all.allocated": self.made, **stats}

    def reset_peak_memory_stats(self, index):
        self.calls.append(f"reset_peak_memory_stats({index})")
        super().reset_peak_memory_stats(index)

    def synchronize(self, index):
        self.calls.append(f"synchronize({index})")

    def empty_cache(self):
        self.calls.append("empty_cache")


def opened(cuda, argument="", exercise=lambda device, dtype: None):
    backend = open_backend(argument, cuda)
    backend._exercise, backend._hold = exercise, cuda.hold
    return backend


def test_a_window_synchronizes_resets_reads_and_synchronizes_and_reads():
    cuda = ScriptedCuda()
    backend = opened(cuda, "0")
    backend.prime()
    cuda.allocate(5000)
    cuda.calls.clear()
    recorder = backend.gauge()
    recorder.start()
    cuda.allocate(700)
    cuda.allocate(-700)
    interval = recorder.stop()
    assert cuda.calls == [
        "synchronize(0)",
        "reset_peak_memory_stats(0)",
        "memory_stats(0)",
        "synchronize(0)",
        "memory_stats(0)",
    ]
    assert interval.requested == interval.allocated == Delta(700, 0)
    assert interval.allocations == 1
    assert interval.problem is None


def test_priming_exercises_each_type_and_reports_what_stays():
    cuda = ScriptedCuda()
    seen = []

    def exercise(device, dtype):
        assert cuda.initialized
        seen.append((device, dtype))
        if dtype is torch.float32:
            cuda.allocate(2 * 8_519_680)  # a workspace for each of the two threads

    assert opened(cuda, "0", exercise).prime() == 17_039_360
    assert seen == [
        ("cuda:0", torch.float32),
        ("cuda:0", torch.float16),
        ("cuda:0", torch.bfloat16),
    ]
    assert cuda.calls[0] == "init"
    assert "synchronize(0)" in cuda.calls


def test_workspaces_that_a_program_freed_count_in_no_window(monkeypatch):
    cuda = ScriptedCuda()
    workspaces = []

    def exercise(device, dtype):
        if not workspaces:
            workspaces.append(cuda.hold(device, 8_519_680))

    def peak():
        recorder = backend.gauge()
        recorder.start()
        exercise("cuda:0", torch.float32)
        return recorder.stop().requested.peak

    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", workspaces.clear, raising=False)
    backend = opened(cuda, "0", exercise)
    backend.prime()
    peaks = [peak()]
    torch._C._cuda_clearCublasWorkspaces()
    assert not workspaces
    assert [*peaks, peak(), peak()] == [0, 0, 0]


def test_priming_refuses_counters_that_are_wrong_about_a_known_block():
    cuda = ScriptedCuda()
    cuda.reset_peak_memory_stats = lambda index: None
    cuda.allocate(100)
    cuda.allocate(-100)
    assert refusal(opened(cuda, "0").prime) == (
        f"backend 'cuda' cannot measure here: on torch {torch.__version__} the peak of"
        " requested_bytes could not be reset"
    )


def test_priming_passes_over_a_type_that_the_device_lacks():
    def exercise(device, dtype):
        if dtype is torch.bfloat16:
            raise RuntimeError("CUBLAS_STATUS_NOT_SUPPORTED")

    assert opened(ScriptedCuda(), "0", exercise).prime() == 0


def test_an_allocator_that_was_never_initialised_is_unmeasured():
    recorder = opened(ScriptedCuda()).gauge()
    recorder.start()
    interval = recorder.stop()
    assert interval.problem == "the allocator of the device keeps no statistics"
    assert interval.requested is None


def test_under_the_async_allocator_requested_bytes_are_unknown_and_allocated_are_not():
    cuda = ScriptedCuda(allocator="cudaMallocAsync")
    backend = opened(cuda)
    backend.prime()
    recorder = backend.gauge()
    recorder.start()
    cuda.allocate(512)
    interval = recorder.stop()
    assert interval.requested is None
    assert interval.allocated == Delta(512, 512)
    assert (
        interval.missing
        == "requested bytes are not counted under cudaMallocAsync; metric='allocated' is"
    )


def test_kinds_are_the_compute_capability_or_rocm_then_cuda(monkeypatch):
    assert opened(ScriptedCuda(capability=(9, 0))).kinds == ("sm90", "cuda")
    assert opened(ScriptedCuda(capability=(12, 0))).kinds == ("sm120", "cuda")
    monkeypatch.setattr(torch.version, "hip", "6.2")
    assert opened(ScriptedCuda()).kinds == ("rocm", "cuda")


@pytest.mark.parametrize(("argument", "device"), [("", "cuda:1"), ("0", "cuda:0")])
def test_the_device_is_the_number_asked_for_or_the_current_one(argument, device):
    assert open_backend(argument, ScriptedCuda()).device == device


@pytest.mark.parametrize("argument", ["2", "x", "-1"])
def test_a_missing_device(argument):
    text = f"backend 'cuda' has no device '{argument}'; expected a number below 2"
    assert refusal(open_backend, argument, ScriptedCuda()) == text


@pytest.mark.parametrize(
    ("built", "why"),
    [
        (None, "was built without CUDA"),
        ("13.0", r"no device is visible \(see nvidia-smi and CUDA_VISIBLE_DEVICES\)"),
    ],
)
def test_no_cuda(monkeypatch, built, why):
    monkeypatch.setattr(torch.version, "cuda", built)
    monkeypatch.setattr(torch.version, "hip", None)
    text = refusal(open_backend, "", ScriptedCuda(available=False))
    assert re.fullmatch(f"backend 'cuda' cannot measure here: .*{why}", text)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has …"),
            "tried to allocate 20.00 GiB",
        ),
        (torch.OutOfMemoryError("another wording"), "an allocation was refused"),
        (RuntimeError("Tried to allocate 1 GiB of wisdom"), None),
    ],
    ids=["size", "other words", "another error"],
)
def test_out_of_memory_has_the_requested_size(error, text):
    assert opened(ScriptedCuda()).out_of_memory(error) == text


def test_torch_cuda_has_all_that_the_stand_in_has():
    own = {"allocate", "hold"}
    methods = vars(ScriptedCounters) | vars(ScriptedCuda)
    names = {name for name in methods if not name.startswith("_")} - own
    assert all(hasattr(torch.cuda, name) for name in names)

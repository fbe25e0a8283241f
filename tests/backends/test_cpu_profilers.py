"""The choice of a profiler, which a known program checks."""

import pytest
import torch
from unavailable import refusal

from pytest_attnmem.backends import cpu_profilers
from pytest_attnmem.backends.cpu import open_backend
from pytest_attnmem.backends.cpu_profilers import KinetoProfiler, LegacyProfiler, default_profiler
from pytest_attnmem.backends.primed_backend import open_primed


@pytest.fixture(autouse=True)
def _noted():
    cpu_profilers.note_all_blocks()


LACKS = "AttributeError: module 'torch._C._autograd' has no attribute '_enable_profiler"


@pytest.mark.parametrize(
    ("lacking", "chosen"), [((), LegacyProfiler), (("_enable_profiler_legacy",), KinetoProfiler)]
)
def test_the_fallback_is_kineto(monkeypatch, lacking, chosen):
    for name in lacking:
        monkeypatch.delattr(torch._C._autograd, name)
    assert default_profiler() is chosen


def test_a_torch_with_neither_profiler_is_refused(monkeypatch):
    for name in ("_enable_profiler_legacy", "_enable_profiler"):
        monkeypatch.delattr(torch._C._autograd, name)
    assert refusal(open_backend, "") == (
        f"backend 'cpu' cannot measure here: no profiler of torch {torch.__version__} reports"
        " 48 -112 80 -48 16 -80 -16 for a program of these sizes; LegacyProfiler reports"
        f" {LACKS}_legacy', KinetoProfiler reports {LACKS}'"
    )


def test_a_torch_whose_allocator_does_not_tell_what_is_freed_is_refused(monkeypatch):
    monkeypatch.setattr(cpu_profilers, "_FLAGS", ("no_such_flag",))
    assert refusal(open_backend, "") == (
        f"backend 'cpu' cannot measure here: torch {torch.__version__} has no flag"
        " FLAGS_caffe2_report_cpu_memory_usage, without which its allocator does not tell what is"
        " freed"
    )


@pytest.mark.parametrize("kind", [torch.Tensor, torch.nn.Parameter])
def test_tensors_that_are_older_than_the_notes_are_heard_when_they_are_freed(kind):
    _, flag = cpu_profilers._library_and_flag()
    flag.value = False
    older = [kind(torch.zeros(1000)), torch.zeros(8).to_sparse(), torch.ones(2, device="meta")]
    cpu_profilers.note_all_blocks()
    profiler = default_profiler()()
    profiler.start()
    del older[0]
    assert [size for size in profiler.stop().sizes if size] == [-4000]


def test_a_torch_without_a_list_of_blocks_hears_of_newer_ones_alone(monkeypatch):
    monkeypatch.setattr(cpu_profilers, "_LIST", ("no_such_function",))
    _, flag = cpu_profilers._library_and_flag()
    flag.value = False
    older = torch.zeros(1000)
    cpu_profilers.note_all_blocks()
    newer = torch.zeros(10)
    profiler = default_profiler()()
    profiler.start()
    del older, newer
    assert [size for size in profiler.stop().sizes if size] == [-40]


def wrong(change):
    """A legacy profiler of a torch that changed."""

    class Wrong(LegacyProfiler):
        def stop(self):
            heard = super().stop()
            return heard._replace(sizes=change(heard.sizes))

    Wrong.__name__ = "LegacyProfiler"
    return Wrong


WRONG = [
    (lambda sizes: [size for size in sizes if size >= 0], "48 80 16"),
    (sorted, "-112 -80 -48 -16 16 48 80"),
    (lambda sizes: [2 * size for size in sizes], "96 -224 160 -96 32 -160 -32"),
    (lambda sizes: sizes[:-2], "48 -112 80 -48 16 -80"),
    (lambda sizes: [], "nothing"),
]


@pytest.mark.parametrize(("change", "report"), WRONG)
def test_a_legacy_profiler_that_is_wrong_about_a_known_program_is_not_used(
    monkeypatch, change, report
):
    monkeypatch.setattr(cpu_profilers, "LegacyProfiler", wrong(change))
    assert default_profiler() is KinetoProfiler
    monkeypatch.delattr(torch._C._autograd, "_prepare_profiler")
    reports = f"; LegacyProfiler reports {report}, KinetoProfiler reports "
    assert reports in refusal(default_profiler)


def test_a_profiler_that_fails_is_stopped(monkeypatch):
    monkeypatch.delattr(torch._C._autograd, "_enable_record_function")
    assert default_profiler() is KinetoProfiler
    assert not torch._C._autograd._profiler_enabled()


def test_the_check_runs_inside_a_backward():
    class Identity(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            chosen.append(default_profiler())
            return gradient

    chosen = []
    Identity.apply(torch.ones(1, requires_grad=True)).backward()
    assert chosen == [LegacyProfiler]


PROFILERS = [
    lambda: torch.autograd.profiler_legacy.profile(profile_memory=True),
    lambda: torch.autograd.profiler.profile(profile_memory=True),
]


@pytest.mark.parametrize("profile", PROFILERS)
def test_the_check_leaves_the_programs_profiler_alone(profile):
    with profile() as profiled:
        torch.ones(3)
        assert default_profiler() is LegacyProfiler
        torch.ones(5)
    assert sum(event.name == "aten::ones" for event in profiled.function_events) == 2


def test_the_check_depends_on_no_state_of_the_program_and_changes_none():
    default = torch.get_default_dtype()
    with torch.device("meta"), torch.inference_mode():
        torch.set_default_dtype(torch.float64)
        torch.use_deterministic_algorithms(True)
        try:
            assert default_profiler() is LegacyProfiler
            assert torch.ones(1).is_meta
            assert torch.are_deterministic_algorithms_enabled()
        finally:
            torch.use_deterministic_algorithms(False)
            torch.set_default_dtype(default)


def test_an_open_window_does_not_count_the_check():
    measured, _ = open_primed("cpu").run(lambda: open_primed("cpu"))
    assert (measured.peak_bytes, measured.allocations, measured.unmeasured) == (0, 0, None)

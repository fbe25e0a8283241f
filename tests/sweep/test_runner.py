"""Cases into rows: whatever becomes of one, the next is run."""

from dataclasses import replace

import pytest
import torch

from pytest_attnmem.backends.primed_backend import open_primed
from pytest_attnmem.backends.registry import BACKENDS, with_profiles
from pytest_attnmem.errors import BudgetError
from pytest_attnmem.profiles import find_profile
from pytest_attnmem.sweep import runner
from pytest_attnmem.sweep.memory import CaseMemory
from pytest_attnmem.sweep.runner import SweepRunner

MIB = 1 << 20


@pytest.fixture
def bench(gtx_1080):
    return SweepRunner(gtx_1080)


def raising(error, case):
    def attend(*args):
        raise error

    return replace(case, attention=replace(case.attention, attend=attend))


def test_a_row_has_all_that_is_on_the_device(bench, case):
    row = bench.row(case("textbook", 256))
    assert (row.kernel, row.B, row.H, row.N, row.d) == ("textbook", 8, 1, 256, 16)
    assert (row.dtype, row.causal, row.backward) == ("float32", True, True)
    assert (row.status, row.by, row.reason) == ("ok", "simulated", "")
    assert (row.forward_ms, row.backward_ms) == (None, None)
    assert row.workspace_bytes == 2 * 8_519_680
    assert row.before_bytes < row.peak_bytes <= row.reserved_bytes
    assert sum(part.nbytes for part in row.components) == row.peak_bytes


def test_out_of_memory_is_a_row_that_says_what_it_would_be(bench, case):
    row = bench.row(case("textbook", 8192))
    assert (row.status, row.reason) == ("OOM", "needs 2.0 GiB more in the forward pass")
    assert row.before_bytes is None
    # six matrices in the backward pass, masks, and with dV sixteen tensors; sums and places
    matrices, masks, tensors, rows = 6 * 2048, 5 * 64, 15 * 4, 0.75
    assert row.peak_bytes == (16.25 + matrices + masks + tensors + rows) * MIB
    assert sum(part.nbytes for part in row.components) == row.peak_bytes


def test_an_error_is_a_row_and_an_interrupt_is_none(bench, case):
    point = case("textbook", 64)
    wrong = raising(ValueError("no\nsuch"), point)
    assert bench.row(wrong).reason == "ValueError: no\\nsuch"
    with pytest.raises(BudgetError) as caught:
        bench.fits(wrong)
    text = "textbook causal N=64 d=16: the kernel raised ValueError: no\\nsuch"
    assert str(caught.value) == text
    assert bench.row(raising(BudgetError("not so"), point)).reason == "not so"
    row = bench.row(case("ring:3", 256))
    assert (row.status, row.by) == ("error", "")
    assert row.reason == "3 ranks cannot share N=256 evenly"
    with pytest.raises(KeyboardInterrupt):
        bench.row(raising(KeyboardInterrupt(), point))


def test_what_cannot_be_relied_on_has_no_numbers(bench, case, monkeypatch):
    seen = CaseMemory(1, 2, 3, unmeasured="no model of aten.mystery")
    monkeypatch.setattr(runner, "observe", lambda case, primed: seen)
    row = bench.row(case("textbook", 64))
    assert (row.status, row.reason) == ("unmeasured", "no model of aten.mystery")
    assert (row.before_bytes, row.peak_bytes, row.components) == (None, None, ())


def test_long_loops_go_by_growth_and_rings_by_their_model(bench, case, monkeypatch):
    asked = []

    def short(point, primed):
        asked.append(point.N)
        return CaseMemory(point.N, 2 * point.N * MIB, point.N**2 // 256)

    monkeypatch.setattr(runner, "observe", short)
    workspaces = 2 * 8_519_680
    for N in (2048, 3072):
        row = bench.row(case("flash", N))
        assert (row.status, row.by, row.N) == ("ok", "by growth", N)
        assert row.before_bytes == N + workspaces
        assert row.peak_bytes == 2 * N * MIB + workspaces
    assert sorted(asked) == [512, 640, 768, 896, 1024]  # each once
    row = bench.row(case("flash", 8192))
    lack = 2 * 8192 * MIB + workspaces - 8_513_978_368
    why = f"needs {lack:,} B more than the device has, by growth"
    assert (row.status, row.reason) == ("OOM", why)
    assert bench.row(case("ring:4", 8192)).by == "by the model"


def test_a_device_may_be_smaller(case):
    tiny = replace(find_profile("GTX 1080"), memory_bytes=30 * MIB)
    bench = SweepRunner(open_primed("simulated:GTX 1080", {**BACKENDS, **with_profiles([tiny])}))
    for name, fitting in (("textbook", 64), ("ring:4", 1024)):
        assert bench.fits(case(name, fitting))
        assert not bench.fits(case(name, 8 * fitting))
        assert bench.row(case(name, 8 * fitting)).status == "OOM"


def test_on_a_device_that_computes_there_are_times(case):
    bench = SweepRunner(open_primed("cpu"), passes=2, warmup=1, tracing=True)
    row = bench.row(case("textbook", 64, B=2))
    assert (row.status, row.by) == ("ok", "measured")
    assert min(row.forward_ms, row.backward_ms) > 0
    assert sum(part.nbytes for part in row.components) == row.peak_bytes
    named = {part.name for part in row.components}
    assert {"scores", "inputs q, k, v", "intermediate gradients"} <= named
    alone = SweepRunner(open_primed("cpu"), passes=1, warmup=0)
    forward = alone.row(case("textbook", 64, backward=False))
    assert (forward.backward_ms, forward.before_bytes, forward.components) == (None, None, ())
    assert forward.forward_ms > 0


def test_what_a_kernel_brings_on_when_first_met_is_not_counted(case, monkeypatch):
    asked = []

    def seen(point, primed):
        asked.append((point.attention.name, point.N))
        return CaseMemory(1, 2, 3)

    monkeypatch.setattr(runner, "observe", seen)
    bench = SweepRunner(open_primed("cpu"))
    for name, N in (("textbook", 512), ("textbook", 256), ("checkpointed", 64)):
        assert bench.fits(case(name, N))
    assert [N for name, N in asked if name == "textbook"] == [128, 512, 256]
    assert asked[3:] == [("checkpointed", 64)] * 2


def test_memory_is_the_same_where_it_is_measured(bench, case):
    measured = SweepRunner(open_primed("cpu"), passes=1, warmup=0).row(case("textbook", 128, B=2))
    simulated = bench.row(case("textbook", 128, B=2))
    scale = 8  # which is a tensor of its own on a CPU
    assert measured.before_bytes == simulated.before_bytes - simulated.workspace_bytes + scale


def test_a_kernel_for_another_device_is_an_error(case):
    row = SweepRunner(open_primed("cpu")).row(case("flash-triton", 64))
    assert (row.status, row.reason) == ("error", "flash-triton runs on cuda")


def test_half_precision(bench, case):
    full, half = (
        bench.row(case("standard", 256, causal=False, dtype=dtype)).before_bytes - 2 * 8_519_680
        for dtype in (torch.float32, torch.bfloat16)
    )
    assert full == 2 * half

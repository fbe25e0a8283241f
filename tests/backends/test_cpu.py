import _thread
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
import torch
from unavailable import refusal

from pytest_attnmem.backends.cpu import Cpu, open_backend
from pytest_attnmem.backends.cpu_profilers import KinetoProfiler
from pytest_attnmem.measurement.protocol import Delta

from .cpu_intervals import SEES, recorded


def two_live_then_one():
    a = torch.empty(1000)
    b = torch.empty(500)
    del a
    torch.empty(100)
    del b


def attention(requires_grad):
    q = torch.ones(2, 4, 64, 32, requires_grad=requires_grad)
    scores = q @ q.mT
    out = scores.softmax(-1) @ q
    if requires_grad:
        out.sum().backward()


def compiled_like_scratch():
    q = torch.ones(1, 4, 256, 32)
    torch.nn.functional.scaled_dot_product_attention(q, q, q)


def test_the_peak_is_the_highest_level_and_the_final_value_is_the_last(capfd):
    interval = recorded(two_live_then_one)
    assert interval.requested == Delta(6000, 0)
    assert interval.allocations == 3
    assert interval.problem is None
    assert interval.allocated == interval.requested  # the CPU's allocator rounds nothing
    assert interval.reserved is None
    assert capfd.readouterr() == ("", "")


def test_the_free_of_an_older_tensor_lowers_the_level_as_on_a_counter():
    backend, before = Cpu(), [torch.empty(250)]
    interval = recorded(before.clear, backend=backend)
    assert interval.requested == Delta(0, -1000)
    assert interval.allocations == 0


def test_the_free_of_an_earlier_windows_tensor_does_too():
    backend, kept = Cpu(), []
    recorded(lambda: kept.append(torch.empty(250)), backend=backend)
    assert recorded(kept.clear, backend=backend).requested == Delta(0, -1000)
    recorder = backend.gauge()
    for interval in (lambda: kept.append(torch.empty(250)), kept.clear):
        recorder.start()
        interval()
        found = recorder.stop()
    assert found.requested == Delta(0, -1000)


def test_forward_and_backward_add_up_over_two_windows():
    """Backward frees exactly the bytes that forward saved."""
    q = torch.ones(2, 8, 8, requires_grad=True)
    parts, backend = [], Cpu()

    def forward():
        parts.append(((q @ q.mT).softmax(-1) @ q).sum())

    def backward():
        parts.pop().backward()

    first, second = recorded(forward, backend=backend), recorded(backward, backend=backend)
    assert first.requested.final + second.requested.final == q.grad.nbytes


def test_a_block_that_no_profiler_heard_end_leaves_no_size_to_the_next_owner_of_its_address():
    backend, kept = Cpu(), []
    recorded(lambda: kept.append(torch.empty(25_000)), backend=backend)
    kept.clear()
    small = [torch.empty(4) for _ in range(1000)]  # one of them where the big one was
    assert recorded(small.clear, backend=backend).requested == Delta(0, -16_000)


def test_priming_uses_up_the_allocators_warning():
    code = """
import torch
from pytest_attnmem.backends.cpu import Cpu
backend = Cpu()
backend.prime()
before = [torch.empty(250)]
recorder = backend.gauge()
recorder.start()
before.clear()
recorder.stop()
"""  # in a new process: the allocator warns of each thousandth block too
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("", "")


def test_nothing_and_tensors_that_share_memory_with_others_are_not_allocations():
    assert recorded(lambda: None).requested == Delta(0, 0)
    x = torch.ones(4, 4)
    assert recorded(lambda: (x.t(), x[1:], x.view(16), x.detach())).allocations == 0


@pytest.mark.parametrize(
    "body",
    [
        two_live_then_one,
        lambda: attention(False),
        lambda: attention(True),
        compiled_like_scratch,
        lambda: torch.ones(100, 100, dtype=torch.bfloat16) @ torch.ones(100, 3).bfloat16(),
    ],
    ids=["plain", "forward", "backward", "sdpa", "bfloat16"],
)
def test_both_profilers_agree(body, capfd):
    body()
    legacy, kineto = recorded(body), recorded(body, KinetoProfiler)
    assert legacy == kineto
    assert legacy.requested.peak > 0


def test_fifty_runs_give_one_number():
    def body():
        attention(True)

    body()
    assert len({recorded(body) for _ in range(50)}) == 1


def test_scratch_inside_kernels_is_seen():
    q = torch.ones(1, 4, 256, 32)
    interval = recorded(lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q))
    assert interval.requested.peak > q.nbytes


def test_a_raw_thread_is_a_problem():
    def body():
        done = _thread.allocate_lock()
        done.acquire()
        _thread.start_new_thread(done.release, ())
        done.acquire()

    assert recorded(body).problem == f"a thread was started, {SEES}"


def test_the_watch_on_threads_leaves_a_profile_function_where_it_was():
    calls = []

    def profile(*_):
        calls.append(1)

    threading.setprofile(profile)
    try:
        recorder = Cpu().gauge()
        recorder.start()
        thread = threading.Thread(target=lambda: len(""))
        thread.start()
        thread.join()
        recorder.stop()
        assert threading.getprofile() is profile
        assert calls
    finally:
        threading.setprofile(None)


def test_a_thread_from_before_that_worked_is_a_problem():
    with ThreadPoolExecutor(1, "pool") as pool:
        pool.submit(len, "").result()
        interval = recorded(lambda: pool.submit(lambda: torch.ones(1 << 20).sum().item()).result())
        idle = recorded(lambda: torch.empty(10))
    assert interval.problem == f"thread 'pool_0' ran meanwhile, {SEES}"
    assert idle.problem is None


def test_another_profiler_is_a_problem(capfd):
    recorder = Cpu().gauge()
    with torch.autograd.profiler.profile(use_kineto=True):
        recorder.start()
        interval = recorder.stop()
    assert interval.problem == "another profiler is running on this thread"
    assert interval.requested is None


class InBackward(torch.autograd.Function):
    """Calls something in its backward pass."""

    @staticmethod
    def forward(ctx, x, call):
        ctx.call = call
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        ctx.call()
        return grad * 2, None


BACKWARD = "a region began or ended inside a backward function"


def test_an_interval_that_ends_inside_a_backward_function_is_not_measured():
    recorder = Cpu().gauge()
    inside = []

    def call():
        inside.append(recorder.stop())
        recorder.start()

    x = torch.ones(10, requires_grad=True)
    recorder.start()
    InBackward.apply(x, call).sum().backward()
    whole = recorder.stop()
    assert [interval.problem for interval in inside] == [BACKWARD]
    assert whole.problem is None
    assert whole.requested.peak > 0


def test_nor_is_one_that_begins_there(capfd):
    recorder = Cpu().gauge()
    x = torch.ones(10, requires_grad=True)
    InBackward.apply(x, recorder.start).sum().backward()
    assert recorder.stop().problem == BACKWARD
    assert recorded(two_live_then_one).requested == Delta(6000, 0)
    assert capfd.readouterr() == ("", "")


def test_a_refused_allocation_has_its_size_and_line():
    line = raises.__code__.co_firstlineno + 1
    with pytest.raises(RuntimeError) as refused:
        raises()
    text = f"tried to allocate 1024.0 TiB at test_cpu.py:{line}"
    assert Cpu().out_of_memory(refused.value) == text


def raises():
    torch.empty(2**50, dtype=torch.uint8)


@pytest.mark.parametrize("error", [RuntimeError("shape mismatch"), ValueError("x")])
def test_other_errors_are_not_out_of_memory(error):
    assert Cpu().out_of_memory(error) is None


@pytest.mark.parametrize("mode", [nullcontext, torch.inference_mode, torch.no_grad])
def test_priming_leaves_nothing_allocated_where_the_program_turned_gradients_off_too(mode):
    with mode():
        assert Cpu().prime() == 0


def test_threads_is_a_symbol():
    assert open_backend("").symbols == {"threads": torch.get_num_threads()}


def test_a_device_number_is_refused():
    assert refusal(open_backend, "1") == "backend 'cpu' takes no device number, got '1'"


def test_the_private_functions_are_still_those_we_know():
    """Fails when torch changes the private API of ``cpu_profilers.py``."""
    event = torch._C._autograd.ProfilerEvent
    assert {"cpu_memory_usage", "name", "kind"} <= set(dir(event))
    assert hasattr(torch._C._autograd, "_enable_record_function")
    assert hasattr(torch._C, "_storage_Use_Count")
    assert torch._C._current_autograd_node() is None

"""The counters that a program reads are what they would be if nobody measured it."""

import torch

from pytest_attnmem.measurement.environment import are_kept

KEPT = are_kept(tuple(map(int, torch.__version__.split(".")[:2])), {})
READS = """
import torch
from pytest_attnmem import measure
cuda, seen = torch.cuda, []
def read():
    free, total = cuda.mem_get_info()
    seen.append([
        cuda.memory_allocated(), cuda.max_memory_allocated(), cuda.memory_reserved(),
        cuda.max_memory_reserved(), total - free, cuda.memory_stats(),
    ])
def program(size):
    read()
    a = torch.ones(size, size, device="cuda", requires_grad=True)
    b = torch.ones(size, size, device="cuda")
    read()
    a @ b
    read()
    (a @ b).sum().backward()
    read()
    del b
    cuda.reset_peak_memory_stats()
    torch.ones(1 << 20, device="cuda")
    read()
def cleared(size):
    program(size)
    cuda.empty_cache()
    read()
"""
#: The backend is opened by the first window, which a fresh process has not used yet.
MEASURED = """
def run(function, *args):
    peaks.append(measure(function, *args, backend="null").peak_bytes)
"""
BARE = """
def run(function, *args):
    function(*args)
"""
TESTS = """
peaks = []
cuda.init()
for function, size in ((program, 64), (program, 128), (cleared, 64), (program, 512)):
    run(function, size)
answer(seen, peaks)
"""


def test_each_counter_is_the_same_with_and_without_windows(under):
    bare, _ = under(READS + BARE + TESTS, device="H100")
    measured, peaks = under(READS + MEASURED + TESTS, device="H100")
    assert len(bare) == 21
    assert measured == bare
    assert bare[0][0] == 0
    if KEPT:  # the program has the workspaces, and no peak of a window has them
        assert bare[-1][0] > 64 << 20
        assert max(peaks) < 8 << 20


def test_workspaces_that_share_a_segment(under):
    """How the segment is split before the second workspace is not known."""
    bare, _ = under(READS + BARE + TESTS, "A100-80GB")
    measured, _ = under(READS + MEASURED + TESTS, "A100-80GB")
    for one in (*bare, *measured):
        one[-1] = {name: n for name, n in one[-1].items() if not name.startswith("inactive")}
    assert measured == bare


def test_an_input_that_the_program_dropped_is_not_allocated(under):
    script = """
import torch
from pytest_attnmem import measure, qkv
levels = []
def program():
    q, k, v = qkv(1, 1, 1024, 64, device="cuda")
    levels.append(torch.cuda.memory_allocated())
    del q, k, v
    levels.append(torch.cuda.memory_allocated())
    return torch.ones(1, device="cuda")
seen = measure(program, backend="null")
answer(levels, seen.peak_bytes)
"""
    assert under(script) == ([3 * 4 * 1024 * 64, 0], 4)


def test_reads_of_a_watch_for_resets_end_no_interval(under):
    """As those of ``attnmem run``: each interval would begin with a reset, which reads again."""
    script = """
import torch
from pytest_attnmem import measure, qkv
from pytest_attnmem.backends.null.program_peaks import ProgramPeaks
def program():
    q, k, v = qkv(1, 1, 64, 64, device="cuda")
    return q + k
measure(program, backend="null")
ProgramPeaks().keep()
reset = torch._C._cuda_resetPeakMemoryStats
peaks = [measure(program, backend="null").peak_bytes for _ in range(3)]
answer(peaks, torch._C._cuda_resetPeakMemoryStats is reset)
"""
    assert under(script) == ([4 * 64 * 64] * 3, True)

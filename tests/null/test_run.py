"""``attnmem run``: any Python program on the null device."""

import json
import subprocess

import pytest

SCRIPT = """
import sys
import torch
x = torch.empty(2**20, dtype=torch.uint8, device="cuda")
print(__name__, sys.argv[1:], torch.cuda.get_device_name())
assert torch.ones(4, device="cuda").sum().item() == torch.ones(4, device="cuda").long().sum().item()
"""


@pytest.fixture
def measured(attnmem, tmp_path):
    """Returns a function that runs a script on an H100, and returns the process and its JSON."""

    def run(script, *arguments, device="H100"):
        options = ("--device", device, "--json", "peaks.json", "--", "script.py")
        done = attnmem(*options, *arguments, script=script)
        assert done.returncode == 0, done.stderr
        return done, json.loads(tmp_path.joinpath("peaks.json").read_text("utf-8"))

    return run


def test_a_script_runs_with_its_arguments_and_its_peaks_are_printed(measured):
    done, found = measured(SCRIPT, "-x", "a b", device="2xH100")
    assert done.stdout == "__main__ ['-x', 'a b'] NVIDIA H100 (attnmem null device)\n"
    assert done.stderr.splitlines() == [
        "attnmem: null:2xH100: cuda:0 at its peak 1.0 MiB requested, 1.0 MiB allocated, 2.0 MiB"
        " reserved"
    ]
    assert found == {
        "null_device": {"devices": "2xH100", "unknown_calls": {}, "device_reads": 0},
        "unknown_values": [],
        "assumed_values": [],
        "uncounted": "",
        "processes": [],
        "uncounted_processes": 0,
        "peaks": {
            "cuda:0": {
                # four ones, as floats and as whole numbers
                "requested_bytes": 2**20 + 16 + 32,
                "allocated_bytes": 2**20 + 2 * 512,
                "reserved_bytes": 2 * 2**20,
            }
        },
    }


def test_processes_that_a_program_starts_have_values_and_peaks(measured):
    script = """
import multiprocessing, os, subprocess, sys, torch
def double(n):
    print(2 * torch.ones(n, device="cuda").sum().item(), flush=True)
if __name__ == "__main__":
    for method in ("spawn", "forkserver"):
        process = multiprocessing.get_context(method).Process(target=double, args=(2**18,))
        process.start()
        process.join()
    code = "import torch; print(torch.ones(2**8, device='cuda').sum().item(), flush=True); "
    for end in ("pass", "import os; os._exit(0)"):
        subprocess.run([sys.executable, "-c", code + end])
"""
    done, found = measured(script)
    assert done.stdout.split() == ["524288.0", "524288.0", "256.0", "256.0"]
    kib = "1.0 KiB requested, 1.5 KiB allocated, 2.0 MiB reserved"
    mib = "1.0 MiB requested, 1.0 MiB allocated, 2.0 MiB reserved"
    assert done.stderr.splitlines() == [
        f"attnmem: null:H100: -c: cuda:0 at its peak {kib}",
        f"attnmem: null:H100: SpawnProcess-1: cuda:0 at its peak {mib}",
        f"attnmem: null:H100: ForkServerProcess-2: cuda:0 at its peak {mib}",
        "attnmem: 1 child process was not counted",
    ]
    # with the sum, its scratch and the product
    assert found["processes"][1]["peaks"]["cuda:0"]["requested_bytes"] == 2**20 + 136
    assert (found["peaks"], found["uncounted_processes"]) == ({}, 1)


def test_ranks_of_torchrun_have_values_and_peaks(attnmem):
    script = """
import torch
import torch.distributed as dist
dist.init_process_group("nccl")
rank = dist.get_rank()
x = torch.ones(2**18 * (rank + 1), device=f"cuda:{rank}")
before = x.sum().item()
dist.all_reduce(x)
print(rank, before, x[0].item(), flush=True)
dist.destroy_process_group()
"""
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node=2", "script.py")
    done = attnmem("--device", "2xH100", "--", *torchrun, script=script)
    assert sorted(done.stdout.splitlines()) == ["0 262144.0 2.0", "1 524288.0 2.0"], done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("attnmem")] == [
        "attnmem: null:2xH100: script.py, rank 0: cuda:0 at its peak 1.0 MiB requested, 1.0 MiB"
        " allocated, 2.0 MiB reserved",
        "attnmem: null:2xH100: script.py, rank 1: cuda:1 at its peak 2.0 MiB requested, 2.0 MiB"
        " allocated, 22.0 MiB reserved",
        "attnmem: a value was read at script.py:9: the other ranks of allreduce were taken to hold"
        " what this holds, and 1 more",
    ]


def test_a_program_that_resets_its_peak_has_the_largest(measured):
    """Training loops do so to log the peak of each step."""
    script = """
import torch
torch.empty(2**20, dtype=torch.uint8, device="cuda")
torch.cuda.reset_peak_memory_stats()
torch.empty(2**10, dtype=torch.uint8, device="cuda")
"""
    _, found = measured(script)
    assert found["peaks"]["cuda:0"]["requested_bytes"] == 2**20


def test_a_program_with_an_allocator_of_its_own_ends_as_without_us(attnmem, tmp_path):
    source = """
#include <stddef.h>
extern int cudaMalloc(void **, size_t), cudaFree(void *);
void *get(ptrdiff_t size, int device, void *stream) { void *p = 0; cudaMalloc(&p, size); return p; }
void put(void *p, ptrdiff_t size, int device, void *stream) { cudaFree(p); }
"""
    script = """
import sys
import torch
from torch.cuda import memory
memory.change_current_allocator(memory.CUDAPluggableAllocator("./own.so", "get", "put"))
print((torch.ones(2, device="cuda") + 1).tolist())
sys.exit(3)
"""
    tmp_path.joinpath("own.c").write_text(source, "utf-8")
    command = ["cc", "-shared", "-fPIC", "-o", "own.so", "own.c"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    done = attnmem("--device", "H100", "--", "script.py", script=script)
    assert (done.returncode, done.stdout, done.stderr) == (
        *(3, "[2.0, 2.0]\n"),
        "attnmem: null:H100: the program's own allocator (pluggable) counts no memory\n",
    )


def test_modules_and_pythons_run_too_and_exit_codes_come_back(attnmem):
    script = "import sys; sys.exit(len(sys.argv))"
    assert attnmem("--", "-m", "script", "a", script=script).returncode == 2
    assert attnmem("python", "script.py", script=script).returncode == 1


def test_code_runs_as_python_runs_it(attnmem):
    code = """
import sys, script, __main__
def double(x): return 2 * x
print(__name__, sys.argv, sys.path[0] == "", script.found, __main__.double(3))
raise ValueError("x")
"""
    done = attnmem("--", "-c", code, "-x", "a b", script="found = 'beside'")
    assert done.returncode == 1
    assert done.stdout == "__main__ ['-c', '-x', 'a b'] True beside 6\n"
    assert done.stderr.splitlines()[:2] == [
        "Traceback (most recent call last):",
        '  File "<string>", line 5, in <module>',
    ]


def test_an_error_is_shown_as_python_shows_it(attnmem):
    done = attnmem("--", "script.py", script="def f(): raise ValueError('x')\nf()\n")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert 'script.py", line 2, in <module>' in lines[1]
    assert lines[-2:] == ["ValueError: x", "attnmem: null:A100-80GB: nothing was allocated"]


def test_pytest_is_a_program_and_auto_takes_the_null_device(attnmem):
    script = """
import pytest
import torch

@pytest.mark.memory_budget(16, exact=True)
def test_it():
    torch.ones(4, device="cuda")
"""
    pytest_itself = ("-m", "pytest", "-p", "no:cacheprovider", "--attnmem-report", "script.py")
    done = attnmem("--device=T4", "--", *pytest_itself, script=script)
    assert done.returncode == 0, done.stdout
    assert "null:T4" in done.stdout


def test_a_device_that_torch_has_no_kernels_for_is_refused(attnmem):
    done = attnmem("--device", "V100", "--", "script.py", script="print('ran')")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("attnmem run: torch ")
    assert "has no kernels for null:V100, whose compute capability is 7.0" in line


def test_cub_runs_the_kernels_of_a_lower_capability(attnmem):
    script = "import torch; print(torch.ones(99, device='cuda').nonzero().shape)"
    done = attnmem("--device", "L4", "--", "script.py", script=script)
    assert done.stdout == "torch.Size([99, 1])\n", done.stderr

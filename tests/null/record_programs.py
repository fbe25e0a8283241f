"""Record programs: ``python tests/null/record_programs.py``, with the CUDA build of torch.

Each null device has a process of its own. The peaks of the programs in each module of ``DEVICES``,
in ``tests/backends/simulated``, as PyTorch's own allocator counts them from an empty state, go to
the file of that name in ``tests/data/cuda/<version>``. A program that a device refuses is left out.
Names of modules as arguments record these alone.
"""

import sys

import on_null

PROGRAMS = on_null.TESTS / "backends" / "simulated"
DEVICES = {
    "programs": ("A100-80GB", "H100", "T4", "B200"),
    "random_programs": ("A100-80GB", "H100"),
    "layout_programs": ("A100-80GB", "B200"),
    "mended_programs": ("A100-80GB", "B200"),
    "one_element_programs": ("A100-80GB",),
    "empty_programs": ("A100-80GB",),
    "recurrent_programs": ("A100-80GB", "H100"),
    "forward_programs": ("A100-80GB", "B200"),
    "database_programs": ("A100-80GB", "H100"),
    "index_programs": ("A100-80GB", "H100"),
    "deterministic_programs": ("A100-80GB", "H100"),
}
SCRIPT = """
import gc, importlib, json, os, sys, time
import torch
PROGRAMS = importlib.import_module(sys.argv[1]).PROGRAMS
from pytest_attnmem.backends.null.settled_backward import settle_each_pass
from pytest_attnmem.nulldevice import counts

torch.cuda.init()
settle_each_pass()
gc.freeze()
found = {}
for name, program in PROGRAMS.items():
    for _ in range(100):  # autograd's thread may still free the last step
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        if not torch.cuda.memory_reserved():
            break
        time.sleep(0.02)
    torch.cuda.reset_peak_memory_stats()
    calls = counts.unknown_calls()
    if torch.cuda.memory_reserved():
        raise SystemExit(f"{name} begins with {torch.cuda.memory_reserved()} bytes reserved")
    try:
        program()
    except (RuntimeError, IndexError) as error:
        print(name, error, file=sys.stderr)
        continue
    if counts.unknown_calls() == calls:
        peaks = torch.cuda.memory_stats()
        kinds = ("requested", "allocated", "reserved")
        found[name] = [peaks[f"{kind}_bytes.all.peak"] for kind in kinds]
print(json.dumps(found), flush=True)
os._exit(0)
"""


def main():
    for module in sys.argv[1:] or DEVICES:
        peaks = {device: on(device, module) for device in DEVICES[module]}
        what = "peaks in bytes on the null device: requested, allocated, reserved"
        on_null.write(module, what, peaks)


def on(device, module):
    return on_null.said(device, SCRIPT, module, folders=[PROGRAMS])[-1]


if __name__ == "__main__":
    main()

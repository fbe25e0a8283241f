"""Record what operators allocate: ``python tests/null/record_operators.py``, with the CUDA build.

Each call runs alone on the null device, between two readings of the allocator's own history;
the workspaces of matrix products exist before. The events go to
``tests/data/cuda/<version>/operators.json``; ``operators-held-out.json`` has calls drawn at random
after the tables in ``pytest_attnmem/backends/simulated/scratch`` were finished.
"""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import recordings

from pytest_attnmem.backends.certification.traces import of_history
from pytest_attnmem.nulldevice.launch import environment
from pytest_attnmem.profiles import find_profile

TESTS = Path(__file__).parents[1]
SCRATCH = TESTS / "backends" / "simulated" / "scratch"
DEVICES = ("A100-80GB", "H100", "T4", "A10G", "B200")
SETS = {
    "operators": "operator_calls",
    "operators-layers": "layer_calls",
    "operators-norms": "norm_calls",
    "operators-layouts": "layout_calls",
    "operators-others": "other_calls",
    "operators-grouped": "grouped_calls",
    "operators-held-out": "random_calls",
}


def main():
    for name in sys.argv[1:] or SETS:
        traces = {device: recorded_on(device, SETS[name]) for device in DEVICES}
        write(name, "single operators on null devices", traces.values())


def write(name, of, traces):
    """Writes the recording of that name; ``traces`` has the rows of each device."""
    rows = [merged(*every) for every in zip(*traces, strict=True)]
    rows = [row for row in rows if row is not None]
    head = {
        "what": f"what PyTorch's allocator was asked for by {of}",
        "torch": version("torch"),
        "devices": DEVICES,
    }
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    start = json.dumps(head, indent=1).removesuffix("\n}")
    file = recordings.folder() / f"{name}.json"
    file.write_text(f'{start},\n "calls": [\n{lines}\n ]\n}}\n', "utf-8")
    print(file, len(rows))


def recorded_on(device, calls):
    paths = os.pathsep.join([str(TESTS.parent), str(SCRATCH), str(Path(__file__).parent)])
    env = {**os.environ, **environment(find_profile(device)), "PYTHONPATH": paths}
    code = f"import record_operators; record_operators.record({calls!r}, {device!r})"
    done = subprocess.run([sys.executable, "-c", code], env=env, stdout=-1, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def merged(*every):
    """Returns a row for all devices: one trace, or one for each device if they differ."""
    traces = {
        device: row.pop("trace")
        for device, row in zip(DEVICES, every, strict=True)
        if "trace" in row
    }
    if not traces:
        return None
    if len(traces) == len(DEVICES) and len(set(traces.values())) == 1:
        return {**every[0], "trace": traces[DEVICES[0]]}
    return {**every[0], "traces": traces}


def record(calls, device):
    """Prints a line for each call of a set, in a process of its own under the null runtime.

    A call may name the devices that it is recorded on.
    """
    import importlib

    warm()
    for row in importlib.import_module(calls).calls():
        if device not in row.pop("on", DEVICES):
            print(json.dumps(row), flush=True)
            continue
        try:
            print(json.dumps({**row, "trace": traced(row)}), flush=True)
        except (RuntimeError, NotImplementedError) as error:
            print(json.dumps(row), flush=True)
            print("not run:", str(row)[:150], str(error).splitlines()[0][:60], file=sys.stderr)
    os._exit(0)  # torch may abort a process that ends while torch's threads run


def warm():
    """Makes the allocations that happen once in a process."""
    import torch

    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        x = torch.empty(8, 8, dtype=dtype, device="cuda")
        torch.mm(x, x)
    torch.cuda.manual_seed(0)


def traced(row):
    """Returns the memory events of a call."""
    import described
    import torch

    operator = described.operator(row["op"])
    args, kwargs = described.arguments(row, "cuda")
    if row.get("cold"):
        torch._C._cuda_clearCublasWorkspaces()
    torch.use_deterministic_algorithms(row.get("deterministic", False))
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.cuda.memory._record_memory_history("all", context=None, clear_history=True)
    try:
        returned = operator(*args, **kwargs)
        entries = torch.cuda.memory._snapshot()["device_traces"][0]
    finally:
        torch.use_deterministic_algorithms(False)
    outputs = described.new_storages([args, kwargs], returned)
    return of_history(entries, outputs)


if __name__ == "__main__":
    main()

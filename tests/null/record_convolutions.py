"""Record convolutions: ``python tests/null/record_convolutions.py``, with the CUDA build.

A row of ``tests/data/cuda/<version>/operators-convolutions.json`` is a call of a convolution or of
its backward, planned by cuDNN on null devices: its trace, and the strides of its results.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import record_operators

from pytest_attnmem.nulldevice.launch import environment
from pytest_attnmem.profiles import find_profile


def main():
    rows = [recorded_on(device) for device in record_operators.DEVICES]
    record_operators.write("operators-convolutions", "convolutions on null devices", rows)


def recorded_on(device):
    paths = map(
        str, (record_operators.TESTS.parent, record_operators.SCRATCH, Path(__file__).parent)
    )
    found = {
        **os.environ,
        **environment(find_profile(device)),
        "PYTHONPATH": os.pathsep.join(paths),
    }
    code = "import record_convolutions; record_convolutions.record()"
    done = subprocess.run([sys.executable, "-c", code], env=found, stdout=-1, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def record():
    """Prints a line for each call, in a process of its own under the null runtime."""
    import convolution_calls
    import described
    import torch

    from pytest_attnmem.nulldevice import counts

    record_operators.warm()
    for row in convolution_calls.calls():
        torch.backends.cudnn.allow_tf32 = row.get("allow_tf32", True)
        before = counts.unknown_calls()
        try:
            trace = record_operators.traced(row)
            args, _ = described.arguments(row, "cuda")
            made = described.operator(row["op"])(*args)
            strides = [None if one is None else one.stride() for one in described.flat([made])]
            if counts.unknown_calls() != before:
                raise RuntimeError(str(counts.unknown_calls()))
            print(json.dumps({**row, "strides": strides, "trace": trace}), flush=True)
        except RuntimeError as error:
            print(json.dumps(row), flush=True)
            print("not run:", str(row)[:150], str(error).splitlines()[0][:60], file=sys.stderr)
    os._exit(0)


if __name__ == "__main__":
    main()

"""Record operators whose sizes depend on data: ``python tests/null/record_from_data.py``.

Like ``record_operators.py``, with the CUDA build, but in runs of ``attnmem run``, which computes
the values that these operators read. The events go to
``tests/data/cuda/<version>/operators-from-data.json``.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from record_operators import DEVICES, SCRATCH, TESTS, warm, write

from pytest_attnmem.backends.certification.traces import of_history

NAME = "operators-from-data"


def main():
    write(NAME, "operators that read data", map(recorded_on, DEVICES))


def recorded_on(device):
    paths = os.pathsep.join([str(TESTS.parent), str(SCRATCH), str(Path(__file__).parent)])
    run = [sys.executable, "-m", "pytest_attnmem.cli", "run", "--device", device, "--"]
    done = subprocess.run(
        [*run, __file__, "--record"],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=-1,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def record():
    """Prints a line for each call, on the device of the run."""
    import calls_from_data

    warm()
    for row in calls_from_data.calls():
        try:
            print(json.dumps({**row, "trace": traced(row)}), flush=True)
        except (RuntimeError, NotImplementedError) as error:
            print(json.dumps(row), flush=True)
            print("not run:", str(row)[:150], str(error).splitlines()[0][:90], file=sys.stderr)


def traced(row):
    """Returns the memory events of a call."""
    import described
    import torch

    operator = described.operator(row["op"])
    args, kwargs = described.filled_arguments(row, "cuda")
    torch.use_deterministic_algorithms(row.get("deterministic", False))
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.cuda.memory._record_memory_history("all", context=None, clear_history=True)
    try:
        returned = operator(*args, **kwargs)
        entries = torch.cuda.memory._snapshot()["device_traces"][0]
    finally:
        torch.use_deterministic_algorithms(False)
        torch.cuda.memory._record_memory_history(None)
    outputs = described.new_storages([args, kwargs], returned)
    return of_history(entries, outputs)


if __name__ == "__main__":
    record() if "--record" in sys.argv else main()

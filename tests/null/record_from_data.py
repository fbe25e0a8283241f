"""Record operators whose sizes depend on data: ``python tests/null/record_from_data.py``.

Like ``record_operators.py``, with the CUDA build, but in runs of ``attnmem run``, which computes
the values that these operators read. The events go to
``tests/data/cuda/<version>/operators-from-data.json``.
"""

import json
import os
import subprocess
import sys

from on_null import TESTS
from record_operators import devices, record, write

NAME = "operators-from-data"


def main():
    write(NAME, "operators that read data", map(recorded_on, devices(NAME)))


def recorded_on(device):
    paths = os.pathsep.join(map(str, (TESTS.parent, TESTS, TESTS / "null")))
    run = [sys.executable, "-m", "pytest_attnmem.cli", "run", "--device", device, "--"]
    done = subprocess.run(
        [*run, __file__, "--record", device],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=-1,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    record(NAME, sys.argv[-1]) if "--record" in sys.argv else main()

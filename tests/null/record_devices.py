"""Record ``tests/device_programs.py``: ``python tests/null/record_devices.py``.

Each null device has a process of its own. A row of ``tests/data/cuda/<version>/devices.json`` has
the requested bytes at the peak of each program; null stands for a program that chose cuDNN.
"""

import json
import os
import sys
from pathlib import Path

import on_null

sys.path.insert(0, str(Path(__file__).parents[1]))

import recordings
from device_programs import DEVICES, PROGRAMS

CODE = "import record_devices; record_devices.record()"


def main():
    peaks = {device: on_null.said(device, CODE)[-1] for device in DEVICES}
    what = "requested bytes at the peak of each program"
    recordings.save("devices", what, "peaks", peaks, programs=list(PROGRAMS))


def record():
    """Prints the peaks on the device of this process."""
    from pytest_attnmem import measure
    from pytest_attnmem.backends.null import program

    program.prepare(10**9)
    found = [measure(run, backend="null") for run in PROGRAMS.values()]
    assert all(one.unmeasured is None or "cuDNN" in one.unmeasured for one in found), found
    print(json.dumps([None if one.unmeasured else one.peak_bytes for one in found]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()

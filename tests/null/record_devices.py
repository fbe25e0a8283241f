"""Record ``tests/device_programs.py``: ``python tests/null/record_devices.py``.

Each null device has a process of its own. A row of ``tests/data/cuda/<version>/devices.json`` has
the requested bytes at the peak of each program; null stands for a program that chose cuDNN.
"""

import on_null
import recordings
from device_programs import DEVICES, PROGRAMS


def main():
    peaks = {device: on_null.answer(device, "record_devices", "peaks") for device in DEVICES}
    what = "requested bytes at the peak of each program"
    recordings.save("devices", what, "peaks", peaks, programs=list(PROGRAMS))


def peaks():
    """Returns the peaks on the device of this process."""
    from pytest_attnmem import measure
    from pytest_attnmem.backends.null import program

    program.prepare(10**9)
    found = [measure(run, backend="null") for run in PROGRAMS.values()]
    assert all(one.unmeasured is None or "cuDNN" in one.unmeasured for one in found), found
    return [None if one.unmeasured else one.peak_bytes for one in found]


if __name__ == "__main__":
    main()

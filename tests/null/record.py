"""Record the peaks of the workloads: ``python tests/null/record.py``, with the CUDA build of torch.

Each workload runs on the null device in a process of its own, as ``workloads.py`` describes. The
counts of PyTorch's own allocator go to ``tests/data/cuda/<version>/workloads.json``. A workload
that needs what cuDNN plans on a GPU alone, such as batch normalisation, is left out on that device;
so is one that the device refuses: it has no such kernel, or too little memory.
"""

import on_null
import recordings
import workloads

from pytest_attnmem.profiles import find_profile

DEVICES = ("A100-80GB", "A10G", "H100", "T4", "B200")
SCRIPT = """
import json, os, sys
import workloads
from pytest_attnmem.backends.null import program
from pytest_attnmem.nulldevice import counts
program.prepare(None)
try:
    peaks = workloads.peaks(sys.argv[1])
except RuntimeError as error:
    print(sys.argv[1], error, file=sys.stderr)
    peaks = None
print(json.dumps([peaks, counts.unknown_calls()]), flush=True)
os._exit(0)
"""


def main():
    rows = []
    for device in DEVICES:
        profile = find_profile(device)
        for workload in workloads.WORKLOADS:
            peaks = record(profile, workload)
            if peaks is not None:
                rows.append({"device": device, "workload": workload, **peaks})
                print(*rows[-1].values())
    what = "peaks of PyTorch's CUDA caching allocator on the null device, in bytes"
    devices = {name: about(find_profile(name)) for name in DEVICES}
    recordings.save("workloads", what, "peaks", rows, devices=devices)


def about(profile):
    major, minor = profile.compute_capability
    return {
        "compute_capability": f"{major}.{minor}",
        "multiprocessors": profile.multiprocessors,
        "memory_bytes": profile.memory_bytes,
    }


def record(profile, workload):
    """Returns requested, allocated and reserved bytes; None if unknown here, or refused."""
    ((peaks, unknown),) = on_null.said(profile, SCRIPT, workload)
    if peaks is None or any(name.startswith("cudnn") for name in unknown):
        return None
    return dict(zip(("requested", "allocated", "reserved"), peaks, strict=True))


if __name__ == "__main__":
    main()

"""Record the held-out workloads: ``python tests/null/record_held_out.py``, with the CUDA build.

Like ``record.py``, on the null device with one process for each workload; the peaks go to
``tests/data/cuda/<version>/workloads-held-out.json``. A workload that needs cuDNN or reads the
device is left out.
"""

from concurrent.futures import ThreadPoolExecutor

import on_null
import recordings
import workloads_held_out
from record import DEVICES

KINDS = ("requested", "allocated", "reserved")
SCRIPT = """
import json, os, sys
import torch
from pytest_attnmem.backends.null import program
from pytest_attnmem.nulldevice import counts
program.prepare(10**12)  # a branch of nn.Transformer reads its mask
from workloads_held_out import WORKLOADS

torch.cuda.init()
torch.cuda.reset_peak_memory_stats()
try:
    WORKLOADS[sys.argv[1]]()
    refused = ""
except RuntimeError as error:
    refused = str(error).splitlines()[0]
peaks = torch.cuda.memory_stats()
kinds = ("requested", "allocated", "reserved")
peaks = [peaks[f"{kind}_bytes.all.peak"] for kind in kinds]
print(json.dumps([peaks, counts.unknown_calls(), refused]), flush=True)
os._exit(0)
"""


def main():
    cases = [(device, name) for device in DEVICES for name in workloads_held_out.WORKLOADS]
    with ThreadPoolExecutor(2) as pool:
        rows = [row for row in pool.map(recorded, cases) if row]
    what = "peaks of PyTorch's CUDA caching allocator on the null device, in bytes"
    recordings.save("workloads-held-out", what, "peaks", rows)


def recorded(case):
    """Returns requested, allocated and reserved bytes, or None if they are unknown here."""
    device, workload = case
    ((peaks, unknown, refused),) = on_null.said(device, SCRIPT, workload)
    print(device, workload, *peaks, unknown, refused)
    if unknown or refused:
        return None
    return {"device": device, "workload": workload, **dict(zip(KINDS, peaks, strict=True))}


if __name__ == "__main__":
    main()

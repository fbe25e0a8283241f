"""Record convolutions: ``python tests/null/record_convolutions.py``, with the CUDA build.

A row of ``tests/data/cuda/<version>/operators-convolutions.json`` is a call of a convolution or of
its backward, planned by cuDNN on null devices: its trace, and the strides of its results. The peaks
of ``convolution/models.py`` in bytes, requested, allocated and reserved, are in
``convolution-models.json``.
"""

import json
import os
import sys
from pathlib import Path

import on_null

sys.path.insert(0, str(Path(__file__).parents[1]))

import record_operators

NAME = "operators-convolutions"
#: Devices on which cuDNN computes in bfloat16.
MODERN = ("A100-80GB", "H100", "B200")
MODELS = on_null.TESTS / "backends" / "simulated" / "convolution"


def main():
    rows = [recorded_on(device, "record") for device in record_operators.devices(NAME)]
    record_operators.write(NAME, "convolutions on null devices", rows)
    (peaks,) = zip(*(recorded_on(device, "record_models") for device in MODERN), strict=True)
    found = {name: dict(zip(MODERN, (of[name] for of in peaks), strict=True)) for name in peaks[0]}
    what = "peaks in bytes of models with convolutions on null devices"
    record_operators.recordings.save("convolution-models", what, "peaks", found)


def recorded_on(device, function):
    code = f"import record_convolutions; record_convolutions.{function}()"
    return on_null.said(device, code, folders=[MODELS], DEVICE=device)


def record_models():
    """Prints the peaks of all models in a line, or why there are none."""
    import models

    from pytest_attnmem import measure

    found = {}
    for name, program in models.MODELS.items():
        seen = measure(program, backend=f"null:{os.environ['DEVICE']}")
        peaks = [seen.peak_bytes, seen.allocated_bytes, seen.reserved_bytes]
        found[name] = seen.unmeasured or peaks
    print(json.dumps(found), flush=True)
    os._exit(0)


def record():
    """Prints a line for each call, in a process of its own under the null runtime."""
    from pytest_attnmem.backends.certification import described, null_calls
    from pytest_attnmem.nulldevice import counts

    null_calls._warm()
    for row, is_recorded in record_operators.calls(NAME, os.environ["DEVICE"]):
        if not is_recorded:
            print(json.dumps(row), flush=True)
            continue
        before = counts.unknown_calls()
        try:
            trace = record_operators.traced(row)
            args, _ = described.arguments(record_operators.of_row(row), "cuda")
            made = described.operator(row["op"])(*args)
            strides = [one.stride() for one in described._tensors(made)]
            if counts.unknown_calls() != before:
                raise RuntimeError(str(counts.unknown_calls()))
            print(json.dumps({**row, "strides": strides, "trace": trace}), flush=True)
        except RuntimeError as error:
            record_operators.not_run(row, error)
    os._exit(0)


if __name__ == "__main__":
    main()

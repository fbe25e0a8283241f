"""Record convolutions: ``python tests/null/record_convolutions.py``, with the CUDA build.

A row of ``tests/data/cuda/<version>/operators-convolutions.json`` is a call of a convolution or of
its backward, planned by cuDNN on null devices: its trace, and the strides of its results. The peaks
of ``convolution/models.py`` in bytes, requested, allocated and reserved, are in
``convolution-models.json``.
"""

import on_null
import record_operators

from pytest_attnmem.backends.certification import described
from pytest_attnmem.nulldevice import counts

NAME = "operators-convolutions"
#: Devices on which cuDNN computes in bfloat16.
MODERN = ("A100-80GB", "H100", "B200")
MODELS = on_null.TESTS / "backends" / "simulated" / "convolution"


def main():
    code = "import record_convolutions, sys; record_convolutions.record(sys.argv[1])"
    rows = [on_null.said(device, code, device) for device in record_operators.devices(NAME)]
    record_operators.write(NAME, "convolutions on null devices", rows)
    run = ("record_convolutions", "models_on")
    peaks = [on_null.answer(device, *run, device, folders=[MODELS]) for device in MODERN]
    found = {name: dict(zip(MODERN, (of[name] for of in peaks), strict=True)) for name in peaks[0]}
    what = "peaks in bytes of models with convolutions on null devices"
    record_operators.recordings.save("convolution-models", what, "peaks", found)


def models_on(device):
    """Returns the peaks of all models, or why there are none."""
    import models

    from pytest_attnmem import measure

    found = {}
    for name, program in models.MODELS.items():
        seen = measure(program, backend=f"null:{device}")
        peaks = [seen.peak_bytes, seen.allocated_bytes, seen.reserved_bytes]
        found[name] = seen.unmeasured or peaks
    return found


def record(device):
    """Prints a line for each call, in a process of its own under the null runtime."""
    record_operators.record(NAME, device, with_strides)


def with_strides(row):
    """Returns the trace of a call, and the strides of its results."""
    before = counts.unknown_calls()
    trace = record_operators.traced(row)
    args, _ = described.arguments(record_operators.of_row(row), "cuda")
    made = described.operator(row["op"])(*args)
    if counts.unknown_calls() != before:
        raise RuntimeError(str(counts.unknown_calls()))
    return {"strides": [one.stride() for one in described._tensors(made)], "trace": trace}


if __name__ == "__main__":
    main()

"""Record the calls of ``tests/expressions.py``: ``python tests/null/record_expressions.py``.

A row of ``tests/data/cuda/<version>/expressions.json`` has the peaks of a call above its inputs,
``[requested, allocated]`` of the forward pass, then of forward and backward together. Null stands
for a call that the null device cannot run, because nobody can know a value that it reads.
"""

import json
import os
import sys

import on_null
import recordings
from record_opinfo import above, stats, warm

CODE = "import record_expressions; record_expressions.record()"
DEVICES = ("A100-80GB", "H100", "T4", "A10G", "B200")


def main():
    rows = {device: on_null.said(device, CODE) for device in DEVICES}
    peaks = zip(*rows.values(), strict=True)
    what = "peaks in bytes of calls of operators on null devices"
    file = recordings.save("expressions", what, "peaks", peaks, devices=DEVICES)
    print(file, *map(len, rows.values()))


def record():
    """Prints a line for each call, on the device of the process."""
    import expressions

    from pytest_attnmem.backends.null import program
    from pytest_attnmem.measurement.values_limit import VALUES_LIMIT, parse_values_limit

    program.prepare(parse_values_limit(VALUES_LIMIT))
    warm()
    for call in expressions.CALLS:
        try:
            row = peaks(*call)
        except (RuntimeError, TypeError) as error:
            print(call, str(error)[:90], file=sys.stderr)
            row = None
        print(json.dumps(row), flush=True)
    os._exit(0)


def peaks(inputs, call):
    import expressions
    import torch
    from opinfo_samples import backward

    torch.cuda.empty_cache()
    names = expressions.inputs(inputs)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = stats()
    result = expressions.result(call, names)
    row = above(before)
    return row + above(before) if backward(result) else row


if __name__ == "__main__":
    main()

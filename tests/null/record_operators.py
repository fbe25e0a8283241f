"""Record what operators allocate: ``python tests/null/record_operators.py``, with the CUDA build.

The calls are those of the recording of the first version, to which others can be added as rows
without a trace. Each runs alone on the null device, between two readings of the allocator's own
history; the workspaces of matrix products exist before. The events go to
``tests/data/cuda/<version>/operators.json``; ``operators-held-out.json`` has calls drawn at random
after the tables in ``pytest_attnmem/backends/simulated/scratch`` were finished.
"""

import json
import os
import sys

import on_null
import recordings
from recipes import of_row

from pytest_attnmem.backends.certification import null_calls
from pytest_attnmem.backends.certification.described import arguments

NAMES = (
    *("operators", "operators-layers", "operators-norms", "operators-layouts"),
    *("operators-others", "operators-grouped", "operators-held-out"),
)
#: What a row has of its recording.
RECORDED = ("trace", "traces", "strides")


def main():
    for name in sys.argv[1:] or NAMES:
        traces = [recorded_on(device, name) for device in devices(name)]
        write(name, "single operators on null devices", traces)


def devices(name):
    """Returns the devices of the recording of that name."""
    return recordings.read(name, recordings.VERSIONS[0])["devices"]


def calls(name, device):
    """Yields each call of the recording of that name, and True if it is recorded on the device."""
    for row in recordings.read(name, recordings.VERSIONS[0])["calls"]:
        call = {key: value for key, value in row.items() if key not in RECORDED}
        yield call, device in row.get("traces", [device])


def write(name, of, traces):
    """Writes the recording of that name; ``traces`` has the rows of each device."""
    rows = [merged(devices(name), *every) for every in zip(*traces, strict=True)]
    rows = [row for row in rows if row is not None]
    what = f"what PyTorch's allocator was asked for by {of}"
    print(recordings.save(name, what, "calls", rows, devices=devices(name)), len(rows))


def recorded_on(device, name):
    code = f"import record_operators; record_operators.record({name!r}, {device!r})"
    return on_null.said(device, code)


def merged(on, *every):
    """Returns a row for all devices: one trace, or one for each device if they differ."""
    traces = {
        device: row.pop("trace") for device, row in zip(on, every, strict=True) if "trace" in row
    }
    if not traces:
        return None
    if len(traces) == len(on) and len(set(traces.values())) == 1:
        return {**every[0], "trace": traces[on[0]]}
    return {**every[0], "traces": traces}


def record(name, device, facts=lambda row: {"trace": traced(row)}):
    """Prints a line for each call, in a process of its own under the null runtime."""
    null_calls._warm()
    for row, is_recorded in calls(name, device):
        try:
            print(json.dumps({**row, **facts(row)} if is_recorded else row), flush=True)
        except (RuntimeError, NotImplementedError) as error:
            print(json.dumps(row), flush=True)
            print("not run:", str(row)[:150], str(error).splitlines()[0][:60], file=sys.stderr)
    os._exit(0)  # torch may abort a process that ends while torch's threads run


def traced(row):
    """Returns the memory events of a call."""
    recipe = of_row(row)
    args, kwargs = arguments(recipe, "cuda")
    with null_calls._settings(recipe):
        return null_calls._recorded(recipe, args, kwargs)[1]


if __name__ == "__main__":
    main()

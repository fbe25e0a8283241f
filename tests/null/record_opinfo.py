"""Record PyTorch's database of operators: ``python tests/null/record_opinfo.py``, CUDA build.

The samples of ``tests/opinfo_samples.py`` run on the null device, with their inputs and cuBLAS's
workspaces there before. A row of ``tests/data/cuda/<version>/opinfo.json`` has the peaks above
that, ``[requested, allocated]`` of the forward pass, then of forward and backward together. A
sample that reads values gets those that the null device computes on the host; if nobody can know
one, the row is ``"reads"``. A sample that the null runtime cannot run, or that fails, has no row.

``opinfo-writes.json`` has the peaks of operators that write into a tensor: ``in_place``, or into
one that is given, ``out=``, of the result's size (``sized``) or without elements (``empty``).

``opinfo-ways.json`` has the peaks of samples that are called in other ways (``opinfo_ways.py``).

Arguments name the files to record: ``usual``, ``writes``, ``ways``.
"""

import json
import os
import sys
from functools import partial

import on_null
import recordings

from pytest_attnmem.errors import UnknownValue

DEVICE = "A100-80GB"
PARTS = 8
ALGORITHMS = ("usual", "writes", "ways")
ERRORS = (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError)
CODE = "import record_opinfo, sys; record_opinfo.record(*sys.argv[1:])"


def main():
    for algorithms in sys.argv[1:] or ALGORITHMS:
        found = {name: row for name, row in rows(algorithms).items() if not is_error(row)}
        which = {"usual": "", "writes": " that write", "ways": " in other ways"}[algorithms]
        name = "opinfo" if algorithms == "usual" else f"opinfo-{algorithms}"
        write(name, f"peaks in bytes of samples of torch's op_db{which}", found)


def is_error(row):
    return isinstance(row, str) and row != "reads"


def rows(algorithms):
    """Returns the rows of all samples; processes of their own run them, because some end it."""
    found, started = {}, set()
    for part in range(PARTS):
        while True:
            made, last = part_of(algorithms, part, sorted(started))
            found.update(made)
            if last is None:
                break
            started.add(last)
            print("ended the process:", last, file=sys.stderr)
    return found


def write(file, what, found):
    by_op = {}
    for name, row in found.items():
        op, key = name.split(maxsplit=1)
        by_op.setdefault(op, {})[key] = row
    what = f"{what} on the null device {DEVICE}"
    peaks = {op: by_op[op] for op in sorted(by_op)}
    print(recordings.save(file, what, "peaks", peaks, device=DEVICE), len(found))


def part_of(algorithms, part, without):
    """Returns the rows of a part, and the sample in which the process ended, or None."""
    made, last = {}, None
    for said in on_null.said(DEVICE, CODE, algorithms, part, *without, check=False):
        if isinstance(said, str):
            last = said or None
        else:
            made.update(said)
    return made, last


def record(algorithms, part, *without):
    """Prints the name of each sample before it runs, then its row; an empty name at the end."""
    import opinfo_samples
    import opinfo_ways
    import torch

    from pytest_attnmem.backends.null import program
    from pytest_attnmem.measurement.values_limit import VALUES_LIMIT, parse_values_limit

    program.prepare(parse_values_limit(VALUES_LIMIT))
    warm()
    counts = None
    if algorithms == "ways":
        counts = opinfo_ways.COUNTS
    for index, (name, op) in enumerate(opinfo_samples.operators().items()):
        if index % PARTS != int(part):
            continue
        for sample in opinfo_samples.samples(name, op, counts):
            if sample.name in without:
                continue
            print(json.dumps(sample.name), flush=True)
            run = {"writes": of_writes, "ways": of_ways}.get(algorithms, of_both_passes)
            print(json.dumps(run(sample)), flush=True)
            torch.cuda.empty_cache()
    print('""', flush=True)
    os._exit(0)


def warm():
    """Makes the allocations that happen once in a process, on autograd's thread too."""
    import torch

    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        x = torch.empty(8, 8, dtype=dtype, device="cuda", requires_grad=True)
        (x @ x).sum().backward()
    torch.cuda.manual_seed(0)


def of_both_passes(sample):
    """Returns the row of a sample, by its name."""
    from opinfo_samples import backward

    input, args, kwargs = sample.on("cuda")
    return {sample.name: row(partial(sample.op, input, *args, **kwargs), backward)}


def of_writes(sample):
    """Returns the rows of a sample's calls that write, by its name and their kind."""
    from opinfo_samples import writing_calls

    try:
        calls = [*writing_calls(sample, "cuda")]
    except (UnknownValue, *ERRORS):
        calls = []  # nobody can make the result, of which a target has the size
    return {f"{sample.name} {kind}": row(call) for kind, call in calls}


def of_ways(sample):
    """Returns the rows of a sample that is called in other ways, by its name and the way's."""
    from opinfo_ways import ways_to_call

    calls = ways_to_call(sample, "cuda")
    return {f"{sample.name} {name}": row(call, after) for name, call, after in calls}


def row(call, backward=lambda _: False):
    """Returns the peaks of a call, and of its backward pass; or the words of its error."""
    try:
        return peaks(call, backward)
    except UnknownValue:
        return "reads"
    except ERRORS as error:
        return str(error).partition("\n")[0].partition(", but you set")[0]


def peaks(call, backward):
    import torch

    from pytest_attnmem.nulldevice import counts

    calls, reads = counts.unknown_calls(), counts.device_reads()
    torch.cuda.reset_peak_memory_stats()
    before = stats()
    torch.manual_seed(0)
    result = call()
    found = above(before)
    if backward(result):
        found += above(before)
    if counts.unknown_calls() != calls:
        raise RuntimeError("unknown calls: " + str(counts.unknown_calls()))
    return "reads" if counts.device_reads() != reads else found


def stats():
    import torch

    found = torch.cuda.memory_stats()
    return [found[f"{kind}_bytes.all.current"] for kind in ("requested", "allocated")]


def above(before):
    import torch

    found = torch.cuda.memory_stats()
    kinds = ("requested", "allocated")
    return [found[f"{kind}_bytes.all.peak"] - was for kind, was in zip(kinds, before, strict=True)]


if __name__ == "__main__":
    main()

"""The samples of PyTorch's database of operators on one stand-in, against the recordings of null.

``python tests/device_gate/op_db.py device OUT.json [NAME ...]``: each operator runs in a child, so
that one which ends the process ends nothing else.
"""

import json
import os
import random
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

import opinfo_samples
import torch
from recordings import read
from stand_ins import StandIn

from pytest_attnmem.errors import AttnMemError, ProgramRefused

OUTCOMES = ("equal", "raises as null", "refused", "needs values", "answers more", "raised",
            "wrong", "crashed")  # fmt: skip
#: The seconds after which an operator hangs.
LIMIT = 240
#: float32 alone, with every sample that was recorded.
COUNTS = {torch.float32: 6}


def rows_of(stand_in: StandIn, name: str, op: Any, recorded: Any) -> Iterator[tuple[str, Any]]:
    """Yields the name of each sample, and first None, then the outcome and what was found."""
    for sample in opinfo_samples.samples(name, op, COUNTS):
        row = recorded.get(sample.name.split(maxsplit=1)[1])
        if row is not None:
            yield sample.name, None
            yield sample.name, outcome(stand_in, sample, row)


def outcome(stand_in: StandIn, sample: Any, row: Any) -> tuple[str, str]:
    """Returns the outcome of a sample, and what differs or was refused."""
    stand_in.restart()
    state = random.getstate()
    try:
        with stand_in.backend.world():
            peaks, problem = _peaks(stand_in, sample)
    except (ProgramRefused, AttnMemError) as error:
        return "needs values" if row == "reads" else "refused", str(error)
    except Exception as error:
        text = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
        same = isinstance(row, str) and str(error).startswith(row)
        return ("raises as null", "") if same else ("raised", text)
    finally:
        random.setstate(state)
    if problem:
        return "needs values" if row == "reads" else "refused", problem
    if row == "reads":
        return "answers more", ""
    return ("equal", "") if peaks == row else ("wrong", f"{peaks}, null {row}")


def _peaks(stand_in: StandIn, sample: Any) -> tuple[list[int], str]:
    input, args, kwargs = sample.on("cuda")
    gauge = stand_in.backend.gauge()
    gauge.start()
    try:
        torch.manual_seed(0)
        result = sample.op(input, *args, **kwargs)
        peaks = stand_in.peaks()
        if opinfo_samples.backward(result):
            peaks += stand_in.peaks()
    finally:
        problem = gauge.stop().problem
    return peaks, problem or ""


def main() -> None:
    """Writes the outcomes."""
    name, out, *only = sys.argv[1:]
    warnings.simplefilter("ignore")
    recorded = read("opinfo")["peaks"]
    stand_in, found = StandIn(name), {}
    for op_name, op in opinfo_samples.operators().items():
        if op_name in recorded and (not only or op_name in only):
            found |= in_child(stand_in, op_name, op, recorded[op_name])
    Path(out).write_text(json.dumps(found, indent=0), "utf-8")
    print(name, dict(Counter(kind for kind, _ in found.values())))


def in_child(stand_in: StandIn, name: str, op: Any, recorded: Any) -> dict[str, Any]:
    """Returns the outcomes of an operator; the one at which the child ended is a crash."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(LIMIT)
        with os.fdopen(writing, "w") as pipe:
            for row in rows_of(stand_in, name, op, recorded):
                print(json.dumps(row), file=pipe, flush=True)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        rows = dict(json.loads(line) for line in pipe)
    status = os.waitpid(child, 0)[1]
    ended = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {status >> 8}"
    return {row: found or ["crashed", ended] for row, found in rows.items()}


if __name__ == "__main__":
    main()

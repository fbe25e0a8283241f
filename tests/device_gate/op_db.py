"""The samples of PyTorch's database of operators on one stand-in, against the recordings of null.

``python tests/device_gate/op_db.py device OUT.json [SET …]``: the sets are the files of recordings:
the samples as they are, by calls that write, in the ten ways of ``opinfo_ways.py``, and calls of
``expressions.txt``. Each operator runs in a child, so that one which ends the process ends nothing
else.
"""

import json
import os
import random
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).parents[1]))

import expressions
import opinfo_samples
import opinfo_ways
import torch
from opinfo_samples import Sample
from recordings import read
from stand_ins import StandIn

from pytest_attnmem.errors import AttnMemError, ProgramRefused

OUTCOMES = ("equal", "raises as null", "refused", "needs values", "answers more", "raised",
            "wrong", "crashed")  # fmt: skip
#: The seconds after which an operator hangs.
LIMIT = 240


def _ends(_: Any) -> bool:
    return False


class Call(NamedTuple):
    """One recorded call."""

    name: str
    row: Any
    prepare: Callable[[], tuple[Callable[[], Any], Callable[[Any], bool]]]
    """Makes the tensors; returns the call, and what runs the pass after it, if there is one."""


def _usual(sample: Sample, rows: dict[str, Any], key: str) -> Iterator[Call]:
    if key in rows:
        yield Call(sample.name, rows[key], partial(_as_it_is, sample))


def _as_it_is(sample: Sample) -> Any:
    input, args, kwargs = sample.on("cuda")
    return partial(sample.op, input, *args, **kwargs), opinfo_samples.backward


def _writes(sample: Sample, rows: dict[str, Any], key: str) -> Iterator[Call]:
    for kind in opinfo_samples.KINDS_OF_WRITES:
        row = rows.get(f"{key} {kind}")
        if row is not None:
            yield Call(f"{sample.name} {kind}", row, partial(_as_write, sample, kind))


def _as_write(sample: Sample, kind: str) -> Any:
    return dict(opinfo_samples.writing_calls(sample, "cuda"))[kind], _ends


def _ways(sample: Sample, rows: dict[str, Any], key: str) -> Iterator[Call]:
    for way in opinfo_ways.WAYS:
        row = rows.get(f"{key} {way}")
        if row is not None:
            yield Call(f"{sample.name} {way}", row, partial(_in_way, sample, way))


def _in_way(sample: Sample, way: str) -> Any:
    _, call, after = next(opinfo_ways.ways_to_call(sample, "cuda", way))
    return call, after


class Set(NamedTuple):
    """The calls of one file of recordings, by operator."""

    file: str
    calls_of: Callable[[Sample, dict[str, Any], str], Iterator[Call]]
    counts: dict[torch.dtype, int] | None = None

    def calls(self) -> Iterator[tuple[str, Callable[[], Iterator[Call]]]]:
        """Yields the operators, each with its calls."""
        recorded = read(self.file)["peaks"]
        for name, op in opinfo_samples.operators().items():
            if name in recorded:
                yield name, partial(self._of, name, op, recorded[name])

    def _of(self, name: str, op: Any, rows: dict[str, Any]) -> Iterator[Call]:
        for sample in opinfo_samples.samples(name, op, self.counts):
            yield from self.calls_of(sample, rows, sample.name.split(maxsplit=1)[1])


class Expressions:
    """The calls of ``expressions.txt``."""

    def calls(self) -> Iterator[tuple[str, Callable[[], Iterator[Call]]]]:
        """Yields the calls, some at a time."""
        recorded = read("expressions")
        place = recorded["devices"].index("A100-80GB")
        rows = [row[place] for row in recorded["peaks"]]
        for start in range(0, len(rows), 20):
            yield f"{start}", partial(self._of, rows, range(start, min(start + 20, len(rows))))

    def _of(self, rows: list[Any], places: range) -> Iterator[Call]:
        for at in places:
            if rows[at] is not None:
                inputs, call = expressions.CALLS[at]
                yield Call(f"{inputs} ;; {call}", rows[at], partial(_as_text, inputs, call))


def _as_text(inputs: str, call: str) -> Any:
    names = expressions.inputs(inputs)
    return partial(expressions.result, call, names), opinfo_samples.backward


SETS: dict[str, Any] = {
    "op_db": Set("opinfo", _usual),
    "op_db writes": Set("opinfo-writes", _writes),
    "op_db ways": Set("opinfo-ways", _ways, opinfo_ways.COUNTS),
    "expressions": Expressions(),
}


def outcome(stand_in: StandIn, call: Call) -> tuple[str, str]:
    """Returns the outcome of a call, and what differs or was refused."""
    stand_in.restart()
    state, row = random.getstate(), call.row
    try:
        with stand_in.backend.world():
            peaks, problem = _peaks(stand_in, call)
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


def _peaks(stand_in: StandIn, call: Call) -> tuple[list[int], str]:
    run, after = call.prepare()
    gauge = stand_in.backend.gauge()
    gauge.start()
    try:
        torch.manual_seed(0)
        result = run()
        peaks = stand_in.peaks()
        if after(result):
            peaks += stand_in.peaks()
    finally:
        problem = gauge.stop().problem
    return peaks, problem or ""


def main() -> None:
    """Writes the outcomes by set."""
    name, out, *only = sys.argv[1:]
    warnings.simplefilter("ignore")
    stand_in, found = StandIn(name), dict[str, Any]()
    for chosen in only or SETS:
        found[chosen] = {}
        for _, calls in SETS[chosen].calls():
            found[chosen] |= in_child(stand_in, calls)
        kinds = Counter(kind for kind, _ in found[chosen].values())
        print(name, chosen, dict(kinds), flush=True)
        Path(out).write_text(json.dumps(found), "utf-8")


def in_child(stand_in: StandIn, calls: Callable[[], Iterator[Call]]) -> dict[str, Any]:
    """Returns the outcomes of an operator; the one at which the child ended is a crash."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(LIMIT)
        with os.fdopen(writing, "w") as pipe:
            for call in calls():
                print(json.dumps([call.name, None]), file=pipe, flush=True)
                print(json.dumps([call.name, outcome(stand_in, call)]), file=pipe, flush=True)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        rows = dict(json.loads(line) for line in pipe)
    status = os.waitpid(child, 0)[1]
    ended = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {status >> 8}"
    return {row: found or ["crashed", ended] for row, found in rows.items()}


if __name__ == "__main__":
    main()

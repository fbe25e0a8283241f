"""The samples of ``op_db`` on the simulated device, against their recordings.

They run as usual; by the calls that write into a tensor, in place or with ``out=``; and in the
ways of ``opinfo_ways.py``.
"""

import json
import random
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import opinfo_ways
import torch
from opinfo_samples import KINDS_OF_WRITES, Sample, backward, operators, samples, writing_calls
from recordings import DATA, INSTALLED, dense, read
from replays import device

from pytest_attnmem.errors import AttnMemError, ProgramRefused

ON = "A100-80GB"
#: What can become of a sample, in the order of the table.
OUTCOMES = ("answered", "refused", "needs values", "wrong", "crashed")


#: A call, and the pass after it, which returns False if there is none.
Prepared = tuple[Callable[[], Any], Callable[[Any], bool]]
#: What prepares a sample in one of its kinds.
Prepare = Callable[[Sample, str], Prepared]


class Outcome(NamedTuple):
    """The outcome of a sample, one of ``OUTCOMES``, and the reason if it is not answered."""

    kind: str
    why: str = ""


def outcomes(names: Iterable[str] | None = None) -> dict[str, Outcome]:
    """Returns the outcomes of the recorded samples by name; of ``names`` of operators alone."""
    return _of_kinds("opinfo", [""], _as_usual, names)


def of_writes(names: Iterable[str] | None = None) -> dict[str, Outcome]:
    """Returns the same of the calls that write into tensors, by sample and kind."""
    return _of_kinds("opinfo-writes", KINDS_OF_WRITES, _as_write, names)


def in_other_ways(names: Iterable[str] | None = None) -> dict[str, Outcome]:
    """Returns the same of the samples that are called in other ways, by sample and way."""
    return _of_kinds("opinfo-ways", opinfo_ways.WAYS, _in_way, names, opinfo_ways.COUNTS)


def _of_kinds(
    recording: str,
    kinds: Iterable[str],
    prepare: Prepare,
    names: Iterable[str] | None,
    counts: dict[torch.dtype, int] | None = None,
) -> dict[str, Outcome]:
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample, rows in _recorded(recording, names, counts):
            for kind in kinds:
                name = f"{sample.name} {kind}".rstrip()
                row = rows.get(name.partition(" ")[2])
                if row is not None:
                    found[name] = outcome(row, partial(prepare, sample, kind))
    return found


def _recorded(
    recording: str, names: Iterable[str] | None, counts: dict[torch.dtype, int] | None = None
) -> Iterator[tuple[Sample, dict[str, Any]]]:
    """Yields the samples of the operators that were recorded, with the rows of the operator."""
    recorded = read(recording)["peaks"]
    for name, op in operators().items():
        if name in recorded and (names is None or name in names):
            for sample in samples(name, op, counts):
                yield sample, recorded[name]


def outcome(recorded: Any, prepare: Callable[[], Prepared]) -> Outcome:
    """Returns what becomes of a sample, which ``prepare`` prepares, beside its recorded row."""
    simulated = device(ON)
    simulated.simulation.restart()
    simulated.prime()
    simulated.name_device()
    state = random.getstate()
    try:
        with simulated.world():
            peaks, problem = _peaks(simulated, prepare)
    except ProgramRefused as error:
        peaks, problem = [], str(error)
    except AttnMemError as error:
        return Outcome("refused", str(error))
    except Exception as error:
        return Outcome("crashed", f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
    finally:
        random.setstate(state)
    if recorded == "reads":
        return Outcome("needs values", problem)
    if problem:
        values = "needs the values" in problem and "cannot run without data" not in problem
        return Outcome("needs values" if values else "refused", problem)
    if peaks == recorded:
        return Outcome("answered")
    return Outcome("wrong", f"{peaks}, recorded {recorded}")


def _as_usual(sample: Sample, _: str) -> Prepared:
    input, args, kwargs = sample.on("cuda")
    return partial(sample.op, input, *args, **kwargs), backward


def _as_write(sample: Sample, kind: str) -> Prepared:
    return dict(writing_calls(sample, "cuda"))[kind], lambda _: False


def _in_way(sample: Sample, kind: str) -> Prepared:
    _, call, after = next(opinfo_ways.ways_to_call(sample, "cuda", kind))
    return call, after


def _peaks(simulated: Any, prepare: Callable[[], Prepared]) -> tuple[list[int], str]:
    """Returns the peaks of a call and of the pass after it, and why they are not to be trusted."""
    gauge = simulated.gauge()
    call, after = prepare()
    gauge.start()
    try:
        torch.manual_seed(0)
        result = call()
        peaks = peaks_so_far(simulated)
        if after(result):
            peaks += peaks_so_far(simulated)
    finally:
        problem = gauge.stop().problem
    return peaks, problem or ""


def peaks_so_far(simulated: Any) -> list[int]:
    interval = simulated.simulation.device.interval(None)
    return [interval.requested.peak, interval.allocated.peak]


def by_operator(found: dict[str, Outcome]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name, outcome in found.items():
        counts[name.split()[0]][outcome.kind] += 1
    return counts


def by_way(found: dict[str, Outcome]) -> dict[str, dict[str, int]]:
    """Returns the counts of outcomes by the way that the samples are called."""
    counts: dict[str, Counter[str]] = {way: Counter() for way in opinfo_ways.WAYS}
    for name, outcome in found.items():
        counts[name.rpartition(" ")[2]][outcome.kind] += 1
    return {way: {kind: each[kind] for kind in OUTCOMES} for way, each in counts.items()}


def told(found: dict[str, Outcome]) -> dict[str, Any]:
    """Returns the counts of all outcomes, and those of operators not answered as a whole."""
    total = Counter(outcome.kind for outcome in found.values())
    return {
        "counts": {kind: total[kind] for kind in OUTCOMES},
        "operators": {
            name: {kind: counts[kind] for kind in OUTCOMES if counts[kind]}
            for name, counts in by_operator(found).items()
            if set(counts) != {"answered"}
        },
        "why": dict(
            Counter(
                outcome.why for outcome in found.values() if outcome.kind == "refused"
            ).most_common()
        ),
    }


def main() -> None:
    """Writes the outcomes on the installed version, for the page of accuracy and the tests."""
    made = told(outcomes())
    written = told(of_writes())
    made |= {f"writes {kind}": written[kind] for kind in ("counts", "operators")}
    others = in_other_ways()
    made |= {f"ways {kind}": told(others)[kind] for kind in ("counts", "operators")}
    made["ways"] = by_way(others)
    file = DATA / INSTALLED / "opinfo-outcomes.json"
    lines = (f" {json.dumps(key)}: {_lines(value)}" for key, value in made.items())
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    for key in ("counts", "writes counts", "ways counts"):
        print(key, made[key])


def _lines(table: dict[str, Any]) -> str:
    rows = (f"  {json.dumps(key)}: {dense(value)}" for key, value in table.items())
    return "{\n" + ",\n".join(rows) + "\n }"


if __name__ == "__main__":
    main()

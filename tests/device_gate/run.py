"""The gate of the simulated device: ``make device-gate``.

Each program of this repository runs on the simulated device and on the null device, whose numbers
are the truth. What is found goes to ``gate.json`` beside this file, by the version of PyTorch, and
the tables of it to ``gate.md``. ``--only NAME …`` runs some of the parts again and keeps the
others. Calls of operators are compared by ``tests/opinfo.py`` and ``test_expressions.py``.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FILE = HERE / "gate.json"
ON = "A100-80GB"
#: What a row may be, in the order of the table.
KINDS = ("rows", "answered", "equal", "refused", "raised", "wrong", "crashed")
#: The numbers of a program's row.
NUMBERS = ("requested", "allocated", "reserved", "retained", "offset")
#: In which order programs run in one process, beside the one in which they are given.
ORDERS = ("reversed", "alone")
PARTS = ("programs", "orders", "times", "random")
#: How often a program runs for its time; the first time is told apart from the last.
TIMES = 3
#: The seconds of random calls.
RANDOM = 600

Rows = Mapping[str, Any]


def of_program(row: Any, truth: Any) -> str:
    """Returns the kind of a program's row; a recording may lack the last numbers."""
    if isinstance(row, str):
        same = isinstance(truth, str) and truth.startswith("raised") and row.startswith("raised")
        return "equal" if same else row.partition(":")[0]
    if isinstance(truth, str):
        return "answered"
    return "equal" if row[: len(truth)] == truth else "wrong"


def truths(source: str, rows: Rows, release: str) -> dict[str, Any]:
    """Returns null's rows with the peaks of the recording, if there is one of the source.

    Each was recorded in a process that collects garbage. With collections off, as in the gate, what
    a first use of some module leaves behind is kept on null, and not on a stand-in.
    """
    file = HERE.parent / "data" / "cuda" / release / f"{source}.json"
    found = json.loads(file.read_text("utf-8")) if file.exists() else {}
    recorded = {} if source.startswith("workloads") else found.get("devices", {}).get(ON, {})
    ends = {name: row[3:] for name, row in rows.items() if isinstance(row, list)}
    return {**rows, **{name: [*peaks, *ends.get(name, ())] for name, peaks in recorded.items()}}


def programs_told(null: Rows, simulated: Rows) -> dict[str, Any]:
    """Returns the rows by program, then by device; ``equal`` in the place of null's numbers."""
    return {
        name: {
            "null": truth,
            "simulated": "equal"
            if _kind(simulated.get(name), truth) == "equal"
            else simulated[name],
        }
        for name, truth in null.items()
    }


def _kind(row: Any, truth: Any) -> str:
    if row is None:
        return "refused"
    return "equal" if row == "equal" else of_program(row, truth)


def orders_told(rows: Rows, others: Mapping[str, Rows]) -> dict[str, Any]:
    """Returns in how many programs each order gave the same rows, and the others."""
    return {
        order: {
            "same": sum(row == rows[name] for name, row in found.items()),
            "others": {name: [row, rows[name]] for name, row in found.items() if row != rows[name]},
        }
        for order, found in others.items()
    }


def times_told(seconds: Mapping[str, Rows]) -> dict[str, Any]:
    """Returns the medians of a device's seconds over those of others, the first time and later."""
    found: dict[str, Any] = {}
    for other in seconds:
        if other == "simulated":
            continue
        both = [
            (mine, seconds[other][name])
            for name, mine in seconds["simulated"].items()
            if isinstance(mine, list) and isinstance(seconds[other].get(name), list)
            and None not in (*mine, *seconds[other][name])
        ]  # fmt: skip
        found[other] = {"programs": len(both)}
        for what, place in (("first", 0), ("again", -1)) if both else ():
            ratios = [mine[place] / his[place] for mine, his in both if his[place]]
            found[other][what] = round(statistics.median(ratios), 2)
    return found


def counted(kinds: Iterable[str]) -> dict[str, int]:
    """Returns how many rows are of each kind; those that are equal or wrong are answered."""
    found = Counter(kinds)
    answered = found["answered"] + found["equal"] + found["wrong"]
    return {**{kind: found[kind] for kind in KINDS}, "rows": found.total(), "answered": answered}


def told(found: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, int]]]:
    for source, programs in found.get("programs", {}).items():
        kinds = [_kind(rows.get("simulated"), rows["null"]) for rows in programs.values()]
        yield source, counted(kinds)


def page(found: Mapping[str, Any]) -> str:
    """Returns the tables, and each row that is not as it should be."""
    lines = [
        "# The gate of the simulated device",
        "",
        f"`make device-gate` wrote this page. The truth is null:{ON}. Equal: all of"
        f" {', '.join(NUMBERS)}. docs/evidence/accuracy.md has the calls of operators.",
    ]
    for torch_version, of_version in found.items():
        lines += ["", f"## torch {torch_version}", "", *_tables(of_version)]
    return "\n".join([*lines, ""])


def _tables(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"| programs | {' | '.join(KINDS)} |"
    yield f"|{'---|' * (1 + len(KINDS))}"
    total = Counter[str]()
    for source, counts in (*told(found), ("**all**", total)):
        yield f"| {source} | {' | '.join(str(counts[kind]) for kind in KINDS)} |"
        total.update(counts)
    yield ""
    for source, orders in found.get("orders", {}).items():
        said = [
            f"{order} {rows['same']} of {rows['same'] + len(rows['others'])} the same"
            for order, rows in orders.items()
        ]
        yield f"- order, {source}: {', '.join(said)}"
    for source, others in found.get("times", {}).items():
        for other, row in others.items():
            if "first" in row:
                yield (
                    f"- processor time over {other}, {source}, median of {row['programs']}:"
                    f" {row['first']} the first time, {row['again']} later"
                )
    if "random" in found:
        made = found["random"]
        yield f"- random calls: {made['calls']}; ended a process: {len(made['crashes'])}"
        yield from (f"  - {crash}" for crash in made["crashes"])
    yield from ("", "### Rows that are wrong, raise or crash", "")
    yield from [*_listed(found)] or ["None."]


def _listed(found: Mapping[str, Any]) -> Iterator[str]:
    for source, programs in found.get("programs", {}).items():
        for name, rows in programs.items():
            if _kind(rows.get("simulated"), rows["null"]) in ("wrong", "raised", "crashed"):
                yield f"- {source} `{name}`: {rows['simulated']}, null {rows['null']}"
    for source, orders in found.get("orders", {}).items():
        for order, of_order in orders.items():
            for name, row in of_order["others"].items():
                yield f"- {source} `{name}`, {order}: {row[0]}, given {row[1]}"


def run(python: str, script: str, *arguments: str, null: bool = False) -> Any:
    """Returns what a script of this folder writes."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        begin = [python, "-m", "pytest_attnmem.cli", "run", "--device", ON, "--"]
        first, *rest = arguments
        command = [str(HERE / script), first, str(out), *rest]
        subprocess.run(
            [*(begin if null else [python]), *command],
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[1])},
        )
        return json.loads(out.read_text("utf-8"))


def of_programs(null: str, sources: list[str], *options: str) -> dict[str, dict[str, Any]]:
    """Returns what each source has on each device."""
    made = {
        name: run(
            null if name == "null" else sys.executable,
            *("programs.py", name, *sources, *options),
            null=name == "null",
        )
        for name in ("simulated", "null")
    }
    return {
        source: {name: rows[source] for name, rows in made.items()} for source in made["simulated"]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--null", required=True, help="a Python with the CUDA build of this torch")
    parser.add_argument("--sources", nargs="*", default=[], help="of programs; by default, all")
    parser.add_argument("--only", nargs="*", default=PARTS, choices=PARTS)
    given = parser.parse_args()
    import torch

    found = json.loads(FILE.read_text("utf-8"))
    part = found.setdefault(torch.__version__.partition("+")[0], {})
    if "programs" in given.only:
        rows = of_programs(given.null, given.sources)
        release = ".".join(torch.__version__.split(".")[:2])
        for source, of in rows.items():
            null = truths(source, of["null"], release)
            part.setdefault("programs", {})[source] = programs_told(null, of["simulated"])
    if "orders" in given.only:
        made = {
            order: run(
                *(sys.executable, "programs.py", "simulated", *given.sources, "--order", order)
            )
            for order in ("given", *ORDERS)
        }
        usual = made.pop("given")
        part.setdefault("orders", {}).update(
            {s: orders_told(rows, {o: m[s] for o, m in made.items()}) for s, rows in usual.items()}
        )
    if "times" in given.only:
        seconds = of_programs(given.null, given.sources, "--times", str(TIMES))
        part.setdefault("times", {}).update({s: times_told(rows) for s, rows in seconds.items()})
    if "random" in given.only:
        part["random"] = run(sys.executable, "random_calls.py", str(RANDOM))
    write(found)


def write(found: dict[str, Any]) -> None:
    """Writes the JSON, a row a line, and the page."""
    FILE.write_text(_lines(found) + "\n", "utf-8")
    (HERE / "gate.md").write_text(page(found), "utf-8")
    print(page(found))


def _lines(value: Any) -> str:
    """Returns a value as JSON; a table of tables takes a line for each of these."""
    if not isinstance(value, dict) or not any(isinstance(one, dict) for one in value.values()):
        return json.dumps(value, separators=(",", ":"))
    lines = ",\n".join(f"{json.dumps(key)}: {_lines(one)}" for key, one in value.items())
    return f"{{\n{lines}\n}}"


if __name__ == "__main__":
    main()

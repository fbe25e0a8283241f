"""The gate of the simulated device that is a device of PyTorch: ``make device-gate``.

Each row of op_db and each program of this repository runs on today's simulated device, on the
device, and on the null device, whose numbers are the truth. What is found goes to ``gate.json``
beside this file, and the table of it to ``gate.md``. ``--only NAME …`` runs some of the parts
again and keeps the others.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ON = "A100-80GB"
STAND_INS = ("simulated", "device")
#: What a row may be, in the order of the table.
KINDS = ("rows", "answered", "equal", "refused", "raised", "wrong", "crashed")
#: The numbers of a program's row.
NUMBERS = ("requested", "allocated", "reserved", "retained", "offset")
PARTS = ("op_db", "programs")


def run(python: str, script: str, *arguments: str, null: bool = False) -> Any:
    """Returns what a script of this folder writes."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        begin = [python, "-m", "pytest_attnmem.cli", "run", "--device", ON, "--"]
        name, *rest = arguments
        command = [str(HERE / script), name, str(out), *rest]
        subprocess.run(
            [*(begin if null else [python]), *command],
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[1])},
        )
        return json.loads(out.read_text("utf-8"))


def of_op_db(row: Any) -> str:
    """Returns the kind of a row of op_db; a row that null refuses may be refused."""
    kind: str = row[0]
    named = {"raises as null": "equal", "needs values": "refused", "answers more": "answered"}
    return named.get(kind, kind)


def of_program(row: Any, truth: Any) -> str:
    """Returns the kind of a program's row."""
    if isinstance(row, str):
        same = isinstance(truth, str) and truth.startswith("raised") and row.startswith("raised")
        return "equal" if same else row.partition(":")[0]
    if isinstance(truth, str):
        return "answered"
    return "equal" if row == truth else "wrong"


def counted(kinds: Iterator[str]) -> dict[str, int]:
    """Returns how many rows are of each kind; those that are equal or wrong are answered."""
    found = Counter(kinds)
    answered = found["answered"] + found["equal"] + found["wrong"]
    return {**{kind: found[kind] for kind in KINDS}, "rows": found.total(), "answered": answered}


def told(found: dict[str, Any]) -> dict[str, dict[str, dict[str, int]]]:
    """Returns the counts by part or source, and by stand-in."""
    table: dict[str, dict[str, dict[str, int]]] = {}
    if "op_db" in found:
        table["op_db"] = {
            name: counted(of_op_db(row) for row in found["op_db"][name].values())
            for name in STAND_INS
        }
    programs = found.get("programs", {})
    for source, truths in programs.get("null", {}).items():
        table[source] = {
            name: counted(
                of_program(row, truths.get(one, "")) for one, row in programs[name][source].items()
            )
            for name in STAND_INS
        }
    return table


def page(found: dict[str, Any]) -> str:
    """Returns the table, and each row of the device that is not as it should be."""
    lines = [
        "# The gate of the device",
        "",
        f"`make device-gate` wrote this page: torch {found['torch']}, null:{ON}. Equal: all of"
        f" {', '.join(NUMBERS)}, for op_db the first two, forward, and with the backward pass.",
        "",
        f"| work | stand-in | {' | '.join(KINDS)} |",
        f"|{'---|' * (2 + len(KINDS))}",
    ]
    for source, by_name in told(found).items():
        for name, counts in by_name.items():
            lines.append(f"| {source} | {name} | {' | '.join(str(counts[k]) for k in KINDS)} |")
    lines += ["", "## Rows of the device that are wrong, raise or crash", ""]
    lines += [*_listed(found, lambda kind: kind in ("wrong", "raised", "crashed"))] or ["None."]
    lines += ["", "## Rows that the device refuses and today's engine answers", ""]
    lines += [*_refused(found)] or ["None."]
    return "\n".join([*lines, ""])


def _listed(found: dict[str, Any], wanted: Callable[[str], bool]) -> Iterator[str]:
    for name, row in found.get("op_db", {}).get("device", {}).items():
        if wanted(of_op_db(row)):
            yield f"- `{name}`: {row[1] or row[0]}"
    programs = found.get("programs", {})
    for source, truths in programs.get("null", {}).items():
        for name, row in programs["device"][source].items():
            if wanted(of_program(row, truths.get(name, ""))):
                yield f"- {source} `{name}`: {row}, null {truths.get(name)}"


def _refused(found: dict[str, Any]) -> Iterator[str]:
    rows = found.get("op_db", {})
    for name, row in rows.get("device", {}).items():
        if of_op_db(row) == "refused" and of_op_db(rows["simulated"].get(name, row)) == "equal":
            yield f"- `{name}`: {row[1]}"
    programs = found.get("programs", {})
    for source, truths in programs.get("null", {}).items():
        for name, row in programs["device"][source].items():
            other = programs["simulated"][source].get(name, "")
            if of_program(row, truths.get(name, "")) == "refused" and isinstance(other, list):
                yield f"- {source} `{name}`: {row}"


def main() -> None:
    """Runs the gate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--null", required=True, help="a Python with the CUDA build of this torch")
    parser.add_argument("--sources", nargs="*", default=[], help="of programs; by default, all")
    parser.add_argument("--only", nargs="*", default=PARTS, choices=PARTS)
    given = parser.parse_args()
    file = HERE / "gate.json"
    found = json.loads(file.read_text("utf-8")) if file.exists() else {}
    import torch

    found["torch"] = torch.__version__.partition("+")[0]
    if "op_db" in given.only:
        found["op_db"] = {name: run(sys.executable, "op_db.py", name) for name in STAND_INS}
    if "programs" in given.only:
        programs = found.setdefault("programs", {})
        for name in (*STAND_INS, "null"):
            null = name == "null"
            python = given.null if null else sys.executable
            made = run(python, "programs.py", name, *given.sources, null=null)
            programs[name] = {**programs.get(name, {}), **made}
    write(found)


def write(found: dict[str, Any]) -> None:
    """Writes the JSON, a row a line, and the page."""
    (HERE / "gate.json").write_text(json.dumps(found, indent=0), "utf-8")
    (HERE / "gate.md").write_text(page(found), "utf-8")
    print(page(found).partition("## ")[0])


if __name__ == "__main__":
    main()

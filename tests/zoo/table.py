"""The table of ``docs/evidence/regressions.md``: which gates catch which pair, on which backend.

``python tests/zoo/table.py cpu simulated:H100`` runs all pairs there and prints the table and each
problem. On the null device: ``attnmem run --device H100 -- python tests/zoo/table.py null:H100``.
Without a backend it writes the claims of the pairs into the page; tests hold each backend to them.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the zoo

from inner_session import Part, row
from zoo.endings import caught, problems
from zoo.gates import run
from zoo.pair import pairs

PART = Part(Path(__file__).parents[2] / "docs" / "evidence" / "regressions.md", "pairs")

BACKENDS = ("cpu", "simulated:H100", "null:H100")

Gates = Mapping[str, Sequence[str]]
"""Pair → the gates that catch it."""


def table(columns: Mapping[str, Gates]) -> str:
    """A row for each pair, a column for each backend."""
    lines = [row("pair", "regression", "issue", *columns), row(*["---"] * (3 + len(columns)))]
    for name, one in pairs().items():
        gates = [", ".join(column[name]) for column in columns.values()]
        lines.append(row(f"`{name}`", one.mechanism, one.case, *gates))
    return "\n".join([*lines, ""])


def claimed() -> Gates:
    """The gates that the pairs declare, on every backend."""
    return {name: one.caught for name, one in pairs().items()}


def measure(backends: list[str]) -> int:
    """Print the table of these backends, and their problems; 1 if there are any."""
    found = {backend: run(backend) for backend in backends}
    columns = {
        backend: {name: caught(one, endings) for name, one in pairs().items()}
        for backend, endings in found.items()
    }
    print(table(columns))
    wrong = [
        f"{backend}, {name}: {problem}"
        for backend, endings in found.items()
        for name, one in pairs().items()
        for problem in problems(one, endings)
    ]
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(
        measure(sys.argv[1:])
        if sys.argv[1:]
        else PART.write(table(dict.fromkeys(BACKENDS, claimed())))
    )

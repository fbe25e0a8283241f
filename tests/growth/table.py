"""The page ``docs/evidence/growth.md``: the verdicts on all bodies of ``tests/growth/bodies``.

``python tests/growth/table.py cpu simulated:H100`` runs the contracts there, and prints a line of
counts for each backend and each verdict that is not right. On the null device:
``attnmem run --device H100 -- python tests/growth/table.py null:H100``. Without a backend it writes
the bodies and the counts into the page; tests hold each backend to them.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for growth

from growth.contracts import Case, bodies, cases, run
from inner_session import Part, row

PART = Part(Path(__file__).parents[2] / "docs" / "evidence" / "growth.md", "bodies")

_BY_NONE = (
    ("dense_where_tiles_do_not_divide", "O(N)"),
    ("grouped_keys_repeated", "O(N*heads + N*groups)"),
    ("stages_of_a_butterfly", "O(N)"),
)
_BY_SIMULATED = (("dense_from_a_threshold_on", "O(N^2)"), ("dense_from_a_threshold_on", "O(N)"))
#: The contracts without an answer, by backend; all others are answered right.
UNANSWERED = {
    "cpu": (*_BY_SIMULATED, *_BY_NONE),
    "simulated:H100": _BY_NONE,
    "null:H100": (*_BY_SIMULATED, *_BY_NONE),
}


def problems(
    backend: str, found: dict[Case, tuple[str, str]], chosen: list[Case] | None = None
) -> Iterator[str]:
    """Yields each verdict on a backend that is not the one that the page promises."""
    for case in cases(backend) if chosen is None else chosen:
        outcome, reason = found.get(case, ("no row", ""))
        wanted = case.right
        if (case.body, case.contract) in UNANSWERED[backend]:
            wanted = "not enforced"
        if outcome != wanted:
            yield f"{backend}, {case.body}, {case.contract}: {outcome}, not {wanted}: {reason}"


def table() -> str:
    """The counts of each backend, and a row for each body."""
    lines = [
        row("backend", "contracts", "right", "false green", "false red", "not enforced"),
        row(*["---"] * 6),
    ]
    for backend, unanswered in UNANSWERED.items():
        every, none = len(cases(backend)), len(unanswered)
        lines.append(row(backend, every, every - none, 0, 0, f"{none} ({none / every:.1%})"))
    lines += ["", row("body", "growth", "keeps", "breaks"), row(*["---"] * 4)]
    for name, body in bodies().items():
        keeps, breaks = ([_written(name, c) for c in cs] for cs in (body.holds, body.breaks))
        grows = " ".join(str(body.run.__doc__).split()).replace("*", "\\*")
        lines.append(row(f"`{name}`", grows, "<br>".join(keeps), "<br>".join(breaks)))
    return "\n".join([*lines, ""])


def _written(body: str, contract: str) -> str:
    without = [b.partition(":")[0] for b, of in UNANSWERED.items() if (body, contract) in of]
    return f"`{contract}`" + (f" (not enforced on {', '.join(without)})" if without else "")


def measure(backends: list[str]) -> int:
    """Print the counts on these backends, and what is not as promised; 1 if there is any."""
    wrong: list[str] = []
    for backend in backends:
        found = run(backend)
        print(f"{backend}: {dict(Counter(_name(case, *end) for case, end in found.items()))}")
        wrong += problems(backend, found)
    print(*wrong, sep="\n")
    return 1 if wrong else 0


def _name(case: Case, outcome: str, _: str) -> str:
    names = {case.right: "right", case.wrong: "false red" if case.holds else "false green"}
    return names.get(outcome, outcome)


if __name__ == "__main__":
    sys.exit(measure(sys.argv[1:]) if sys.argv[1:] else PART.write(table()))

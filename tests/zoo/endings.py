"""The endings of variants at gates, and the endings that are wrong."""

import re
from dataclasses import dataclass

from zoo.pair import Pair

#: A place in the program as failures name it.
_PLACE = re.compile(r"[\w.]+\.py:\d+")


@dataclass(frozen=True)
class Ending:
    """The ending of one variant of a pair at one gate."""

    outcome: str
    """``within``, ``over``, ``not enforced``; ``error`` where the test and its row disagree."""
    reason: str
    text: str
    """The failure; empty where the test passed."""


Endings = dict[tuple[str, str, str], Ending]
"""Endings by pair, gate and variant: ``("mask_repeated", "formula", "bad")``."""


def caught(one: Pair, endings: Endings) -> list[str]:
    """The gates that tell the variants apart: the good one passes, the bad one is over."""
    return [
        gate
        for gate in one.gates
        if endings[one.name, gate, "good"].outcome == "within"
        and endings[one.name, gate, "bad"].outcome == "over"
    ]


def problems(one: Pair, endings: Endings) -> list[str]:
    """A line for each verdict and each message that is not as it should be."""
    found = []
    for gate in one.gates:
        expected = {"good": "within", "bad": "over" if gate in one.caught else "within"}
        for variant, outcome in expected.items():
            ending = endings[one.name, gate, variant]
            if ending.outcome != outcome:
                told = " ".join(ending.reason.split())
                found.append(f"{gate}, {variant}: {ending.outcome}, not {outcome}: {told:.200}")
            elif outcome == "over":
                found += [f"{gate}: {problem}" for problem in _unsaid(one, ending.text)]
    return found


def _unsaid(one: Pair, text: str) -> list[str]:
    """The faults of a failure: the guilty line is not in it, or a line that is not is blamed."""
    lines = text.splitlines()
    found = []
    if not any(
        re.search(rf"\b{one.operator}\b", line) and one.guilty & _places(line) for line in lines
    ):
        found.append(f"no line has {one.operator} at {' or '.join(sorted(one.guilty))}")
    for line in lines:
        blamed = _places(line) - one.guilty if line.lstrip("E ").startswith("grew ") else set()
        # The pairs lie outside the rootdir: the line of the test that calls them is the project's.
        blamed = {place for place in blamed if not place.startswith("test_")}
        if blamed:
            found.append(f"{', '.join(sorted(blamed))} in {line.strip()!r}")
    return found


def _places(line: str) -> set[str]:
    return {*_PLACE.findall(line)}

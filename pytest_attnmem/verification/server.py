"""Measures workloads in a process of their own: ``python -m …server null '{"name": …}'``.

It reads a name a line, and answers with a line of JSON: first the facts of its device, or why it
cannot measure; then the peaks of each workload. Whatever the programs print goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from ..backends.primed_backend import PrimedBackend, open_primed
from ..backends.registry import restart, with_profiles
from ..errors import AttnMemError, ProgramRefused
from ..measurement.values_limit import VALUES_LIMIT, parse_values_limit
from ..profiles import DeviceProfile
from ..units import excerpt
from .comparison import Peaks
from .device_facts import device_facts
from .workload import Workload

Answer = Callable[[Mapping[str, Any]], None]


def serve(
    primed: PrimedBackend, workloads: Iterable[Workload], names: Iterable[str], answer: Answer
) -> None:
    """Answers each name with the peaks of its workload."""
    known = {workload.name: workload for workload in workloads}
    for name in names:
        answer(peaks(primed, known[name.strip()]).as_json())


def peaks(primed: PrimedBackend, workload: Workload) -> Peaks:
    """Returns the peaks of a second run; the first makes plans, compiles and imports."""
    try:
        restart(primed.backend)
        primed.warm_up(workload.run, 1)
        seen, _ = primed.run(workload.run)
    except (ProgramRefused, Exception) as error:  # such as a dtype without a kernel
        ours = isinstance(error, (AttnMemError, ProgramRefused))
        kind = "" if ours else f"{type(error).__name__}: "
        return Peaks(problem=_one_line(f"{kind}{error}"))
    if seen.out_of_memory is not None:
        return Peaks(problem=_one_line(f"out of memory: {seen.out_of_memory}"))
    if why := seen.unmeasured or (seen.missing if seen.peak_bytes is None else ""):
        return Peaks(problem=_one_line(why))
    return Peaks(seen.peak_bytes, seen.allocated_bytes, seen.reserved_bytes)


def _one_line(text: str) -> str:
    return excerpt(" ".join(text.split()), 200)


def opened(kind: str, profile: DeviceProfile | None) -> PrimedBackend:
    """Returns the backend of this kind, primed.

    Raises:
        AttnMemError: it cannot measure here.
    """
    if kind == "simulated" and profile is not None:
        return open_primed(f"simulated:{profile.name}", with_profiles((profile,)))
    if kind == "null":
        from ..backends.null.program import prepare

        prepare(parse_values_limit(VALUES_LIMIT))
    return open_primed(kind)


def as_argument(profile: DeviceProfile | None) -> str:
    """Returns the text from which the process reads the profile; empty for none."""
    if profile is None:
        return ""
    return json.dumps({**asdict(profile), "half_rate": sorted(profile.half_rate)})


def from_argument(text: str) -> DeviceProfile | None:
    """Returns the profile of :func:`as_argument`."""
    if not text:
        return None
    values = json.loads(text)
    values["compute_capability"] = tuple(values["compute_capability"])
    return DeviceProfile(**{**values, "half_rate": frozenset(values["half_rate"])})


def main(kind: str, profile: str) -> None:
    """Serves until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(value: Mapping[str, Any]) -> None:
        print(json.dumps(value), file=answers, flush=True)

    try:
        primed = opened(kind, from_argument(profile))
        from .workloads import WORKLOADS
    except (AttnMemError, ImportError) as error:
        answer({"refused": _one_line(str(error))})
        return
    import torch

    facts = None if kind == "simulated" else device_facts(torch.cuda.get_device_properties())
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda}
    answer({"facts": facts, "versions": versions})
    serve(primed, WORKLOADS, sys.stdin, answer)


if __name__ == "__main__":
    main(*sys.argv[1:])

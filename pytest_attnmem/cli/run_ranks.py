"""Runs a program as several ranks of a world, each in a process of its own, and compares them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import AttnMemError
from ..nulldevice.counts import CAPTURED, captures_graph
from ..nulldevice.launch import Devices, environment
from ..nulldevice.refusals import refusals
from ..nulldevice.torchrun import MAIL, begin, end, rank_environment
from ..units import format_distinct, format_runs, format_size, shown

KINDS = ("requested", "allocated", "reserved")
#: Devices of a node, if the command names one device only.
PER_NODE = 8
_MOST_LINES = 5


@dataclass(frozen=True, slots=True)
class RankRun:
    """A rank that ran to its end."""

    rank: int
    exit_code: int
    found: Mapping[str, Any] = field(default_factory=dict)

    @property
    def peaks(self) -> tuple[int, ...]:
        """Returns the requested, allocated and reserved bytes of the fullest device."""
        devices = self.found.get("peaks", {}).values()
        sizes = [tuple(peak[f"{kind}_bytes"] for kind in KINDS) for peak in devices]
        return max(sizes, default=(0,) * len(KINDS))

    @property
    def held(self) -> Mapping[str, int]:
        """Returns the bytes by line of the program at the peak of the fullest device."""
        peaks = self.found.get("peaks", {})
        fullest = max(peaks, key=lambda device: peaks[device]["requested_bytes"], default="")
        lines: Mapping[str, int] = self.found.get("held", {}).get(fullest, {})
        return lines


def run_ranks(
    host: Sequence[str],
    program: Sequence[str],
    devices: Devices,
    world: int,
    ranks: Sequence[int],
    processes: int,
) -> list[RankRun]:
    """Runs each of the ranks; the first writes to this process's output, others if they fail.

    The command of a process is ``host``, the file for its peaks, and ``program``.

    Raises:
        AttnMemError: the null device does not run here.
    """
    # Ranks keep out of each other's way, but the user's own variables win. Inductor would start a
    # pool of processes for each rank, and the first rank compiles for all.
    alone = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
    if devices.number > 1:
        alone["OMP_NUM_THREADS"] = "1"  # as torchrun does
    variables = {**alone, **os.environ, **environment(*devices)}
    with (
        tempfile.TemporaryDirectory(prefix="attnmem-ranks-") as name,
        ThreadPoolExecutor(processes) as pool,
    ):
        folder = Path(name)

        def run(rank: int) -> RankRun:
            begin(folder, rank)
            path = folder / f"{rank}.json"
            over = {**rank_environment(rank, world, devices.number), MAIL: name}
            code = _run(
                [*host, str(path), *program], {**variables, **over}, rank, shown=rank == ranks[0]
            )
            end(folder, rank)
            found = json.loads(path.read_text("utf-8")) if path.is_file() else {}
            return RankRun(rank, code, found)

        return [*pool.map(run, ranks)]


def _run(command: Sequence[str], variables: Mapping[str, str], rank: int, *, shown: bool) -> int:
    """Runs a rank and returns its exit code; what it wrote is shown if it fails, or at once."""
    output = None if shown else subprocess.PIPE
    done = subprocess.run(
        command,
        env=variables,
        stdout=output,
        stderr=subprocess.STDOUT if output else None,
        check=False,
    )
    if done.returncode and done.stdout:
        sys.stderr.write(f"attnmem: rank {rank} wrote:\n{done.stdout.decode(errors='replace')}")
    return done.returncode


def render(devices: Devices, world: int, runs: Sequence[RankRun]) -> Iterator[str]:
    """Yields the largest peak first, then a row for each group of equal ranks."""
    groups = _equal(runs)
    most = max(groups)
    found = "nothing was allocated"
    if any(most):
        found = f"at most {_by_kind(map(format_size, most))}, on {_named(groups[most])}"
    yield f"attnmem: null:{devices}: {world} ranks, {len(runs)} run: {found}"
    for run in runs:
        if run.exit_code:
            yield f"attnmem: rank {run.rank} ended with exit code {run.exit_code}"
    if len(groups) == 1:
        several = f"{_named(groups[most])} need the same memory"
        yield f"attnmem: {several if runs[1:] else 'only one rank ran; --rank all runs each'}"
    else:
        rows = sorted(groups, reverse=True)
        columns = [format_distinct(*sizes) for sizes in zip(*rows, strict=True)]
        for peaks, texts in zip(rows, zip(*columns, strict=True), strict=True):
            yield f"attnmem:   {_named(groups[peaks])}: {_by_kind(texts)}"
        yield from _differences(runs)
    yield from _remarks(runs)


def _equal(runs: Sequence[RankRun]) -> dict[tuple[int, ...], list[int]]:
    groups: dict[tuple[int, ...], list[int]] = {}
    for run in runs:
        groups.setdefault(run.peaks, []).append(run.rank)
    return groups


def _differences(runs: Sequence[RankRun]) -> Iterator[str]:
    """Yields the lines of the program that hold more or less on the smallest rank."""
    most, least = max(runs, key=lambda run: run.peaks), min(runs, key=lambda run: run.peaks)
    if not (most.held and least.held):
        return
    lines = {**most.held, **least.held}
    changed = [line for line in lines if most.held.get(line, 0) != least.held.get(line, 0)]
    changed.sort(key=lambda line: -abs(most.held.get(line, 0) - least.held.get(line, 0)))
    for line in changed[:_MOST_LINES]:
        larger, smaller = format_distinct(most.held.get(line, 0), least.held.get(line, 0))
        yield (
            f"attnmem:   {line} holds {larger} on rank {most.rank}, {smaller} on rank {least.rank}"
        )
    if len(changed) > _MOST_LINES:
        yield f"attnmem:   and {len(changed) - _MOST_LINES} more lines differ"


def _remarks(runs: Sequence[RankRun]) -> Iterator[str]:
    """Yields a line for each thing that makes a number doubtful, with the ranks it is true of."""
    found: dict[str, list[int]] = {}
    for run in runs:
        calls = run.found.get("null_device", {}).get("unknown_calls", {})
        doubts = [f"the null device does not know {', '.join(calls)}"] if calls else []
        if captures_graph(calls):
            doubts = [CAPTURED]
        doubts = [f"on the null device {reason}" for reason in refusals(calls)] or doubts
        for values in ("unknown_values", "assumed_values"):
            doubts += run.found.get(values, [])[:1]
        for doubt in doubts:
            found.setdefault(doubt, []).append(run.rank)
    for doubt, ranks in found.items():
        yield f"attnmem: {_named(ranks)}: {doubt}"


def _named(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {format_runs(ranks, '-', ', ')}"


def _by_kind(sizes: Iterable[str]) -> str:
    return ", ".join(f"{size} {kind}" for size, kind in zip(sizes, KINDS, strict=True))


def as_json(devices: Devices, world: int, runs: Sequence[RankRun]) -> dict[str, Any]:
    """Returns the peaks of each rank; ``largest`` is the fullest rank's."""
    most = max(runs, key=lambda run: run.peaks)
    return {
        "devices": str(devices),
        "world_size": world,
        "largest": {
            "rank": most.rank,
            **{f"{kind}_bytes": size for kind, size in zip(KINDS, most.peaks, strict=True)},
        },
        "ranks": [{"rank": run.rank, "exit_code": run.exit_code, **run.found} for run in runs],
    }


_PART = re.compile(r"(\d{1,18}|last)(?:-(\d{1,18}|last))?", re.ASCII)


def rank_list(text: str, world: int) -> list[int]:
    """Returns the ranks of a list, in order, each once.

    Raises:
        AttnMemError: it is not a list, or names a rank that is not in the world.
    """
    if text.strip() == "all":
        return [*range(world)]
    ranks = set[int]()
    for part in text.split(","):
        found = _PART.fullmatch(part.strip())
        if found is None:
            raise AttnMemError(
                f"--rank: found {shown(part.strip())}; expected all, or ranks such as 0,last or 0-3"
            )
        ends = [world - 1 if end == "last" else int(end) for end in found.groups() if end]
        if max(ends) >= world or ends[0] > ends[-1]:
            raise AttnMemError(
                f"--rank: found {shown(part.strip())}; expected ranks from 0 to {world - 1},"
                " as in 0,last"
            )
        ranks.update(range(ends[0], ends[-1] + 1))
    return sorted(ranks)

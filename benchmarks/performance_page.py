"""Writes ``docs/evidence/performance.md``: what the plugin costs, beside what others use instead.

python benchmarks/performance_page.py [--rounds 5] [--null PYTHON]

``PYTHON`` is an interpreter with the CUDA build of torch; without it there is no null device in the
tables. Everything that a table compares was timed in this one run, in turns.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import cost
import estimators
import fakegpu_programs
import tile_loops

PAGE: Final = Path(__file__).parents[1] / "docs" / "evidence" / "performance.md"

HEAD: Final = """# Performance

This page has what the plugin costs, beside what the field uses instead. `make bench` measures it
and writes the page. Each table is of one run, whose configurations take turns; each number is the
time of the processor, not of the clock, and the least of {rounds} rounds. The machine had {cores}
cores and a load of {load} when the run began: read the ratios, not the milliseconds, and read those
of less than a millisecond with doubt.

Versions: {versions}.

"""

BETWEEN: Final = """
## Ten programs without a GPU

Each program of `benchmarks/ten_programs.py` runs on bare `FakeTensorMode`, under PyTorch's
`MemTracker` (`torch.distributed._tools.mem_tracker`), simulated as an H100, and on the null device.
The null device needs the CUDA build of PyTorch, and a process takes longer to start; it is the
reference of the peaks, because its allocator and kernels' scratch are PyTorch's own. MemTracker and
FakeTensorMode run on fake tensors of the CPU, as they do in a build without CUDA.

"""

LOOPS: Final = """
## Loops of tiles

A simulated operator takes as long at any size, and a computed one does not: where tiles are small
and few heads share one, the CPU computes them sooner than Python simulates them. Each loop of
`benchmarks/tile_loops.py` has {side} x {side} tiles of 64 features, in float32 and on one thread.
`tiles` is flash attention without gradients. `trained` is a checkpoint for each tile, and the
backward pass. `meta` is PyTorch's own device without data. The last two columns are bounds for a
simulation that sees each operator in Python. The code of the first makes the tensors of the program
and does nothing else. That of the second counts their memory too: a block of attnmem's allocator
for each storage, which is given back when the storage ends, and one note for each result. Neither
follows devices, checks arguments, plans the scratch of kernels, or computes a value. Where a bound
is over 1, the CPU is faster than any such simulation.

"""


def main() -> None:
    """Measures everything and writes the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--null", metavar="PYTHON", type=os.path.abspath, help="an interpreter with the CUDA build"
    )
    options = parser.parse_args()
    load = f"{os.getloadavg()[0]:.1f}"
    costs = cost.measured(options.rounds, options.null)
    environment = cost.null_environment(options.null) if options.null else {}
    programs = estimators.measure(options.rounds, options.null, environment)
    head = HEAD.format(
        rounds=options.rounds, cores=os.cpu_count(), load=load, versions=", ".join(versions())
    )
    table = "\n".join(of_programs(programs))
    loops = LOOPS.format(side=tile_loops.SIDE) + "\n".join(
        tile_loops.table(tile_loops.measured(options.rounds))
    )
    fakegpu = fakegpu_programs.section()
    page = f"{head}{cost.section(costs, options.rounds)}{BETWEEN}{table}\n{fakegpu}{loops}\n"
    PAGE.write_text(page, encoding="utf-8")


def versions() -> Iterator[str]:
    """Yields ``pytest 9.2.0`` of each package that takes part."""
    yield f"Python {platform.python_version()}"
    for name in (
        "torch",
        "pytest",
        "pytest-attnmem",
        "pytest-memray",
        "pytest-benchmem",
        "pytest-benchmark",
    ):
        try:
            yield f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            yield f"{name} not installed"


def of_programs(found: Mapping[str, Mapping[str, estimators.Result]]) -> Iterator[str]:
    """Yields the lines of the table of programs."""
    names = ["simulated", "FakeTensorMode", "MemTracker", "null"]
    yield (
        f"| program | {' | '.join(f'{name} ms' for name in names)} |"
        " FakeTensorMode / simulated | MemTracker / simulated | simulated / null |"
        " peak of null | simulated's | MemTracker's |"
    )
    yield f"|---|{'---:|' * 10}"
    for program, results in found.items():
        times = [f"{results[name].seconds * 1e3:.1f}" if name in results else "" for name in names]
        ours = results["simulated"].seconds
        ratios = [f"{results[name].seconds / ours:.1f}" for name in names[1:3]]
        null = results.get("null")
        ratios.append(f"{ours / null.seconds:.1f}" if null else "")
        cells = " | ".join((*times, *ratios, *peaks(results)))
        yield f"| `{program}` | {cells} |"


def peaks(results: Mapping[str, estimators.Result]) -> Iterator[str]:
    """Yields the reference's peak, and the difference of the others to it."""
    null, simulated = results.get("null"), results["simulated"].peak or 0
    reference = (null or results["simulated"]).peak or 0
    yield f"{reference:,}" if null else ""
    yield "=" if simulated == reference else f"{simulated - reference:+,}"
    tracked = results["MemTracker"].peak or 0
    yield "=" if tracked == reference else f"{tracked / reference - 1:+.1%}"


if __name__ == "__main__":
    main()

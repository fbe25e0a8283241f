"""Compare kernels over widths and lengths: time, memory before backward, and peak."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ..errors import AttnMemError, BudgetError
from ..measurement.environment import describe
from ..measurement.garbage import garbage_frozen
from ..models.search import last_that_fits, longest
from ..profiles import DEFAULT_PROFILE, PROFILES, find_profile
from ..report import check_output_path, write
from ..sweep import markdown_report, text_table
from ..sweep import results as rows
from ..sweep.extrapolation import MAX_SHORT_ALLOCATIONS, PERIOD, SHORT
from ..units import format_count, parse_size, shown
from .kernel_workload import size_of
from .terminal import progress

if TYPE_CHECKING:
    from ..backends.primed_backend import PrimedBackend
    from ..sweep.case import SweepCase
    from ..sweep.runner import SweepRunner

#: The most digits of a count of passes.
_MAX_DIGITS: Final = 6
#: The products of all runs from which on a CPU takes longer than half a minute or so.
_LONG: Final = 10**12

#: A shell's exit code for Ctrl-C.
INTERRUPTED: Final = 130

#: The options that write a file, and the function that renders it.
_FILES: Final = MappingProxyType(
    {"csv": text_table.to_csv, "markdown": markdown_report.render, "json": rows.render}
)

_D, _N = "16,32,64,128", "256,1024,4096,8192,16384"


def add_arguments(parser: ArgumentParser) -> None:
    """``--kernel textbook,flash --d 64 --n 1024,4096 --backward --simulate --device T4``."""
    parser.epilog = (
        "It repeats the reference benchmark: inputs, a warm-up whose copies and gradients stay"
        " allocated, copies, a forward pass, an upstream gradient, and a backward pass. Simulated"
        " kernels that loop over many blocks are extrapolated exactly from short lengths; a kernel"
        f" with more than {MAX_SHORT_ALLOCATIONS:,} allocations at N={SHORT // 2} is refused over"
        f" N={SHORT}. Ctrl-C writes the finished rows and exits with {INTERRUPTED}; if no row has a"
        " result, the exit code is 1."
    )
    add = parser.add_argument
    add(
        "--kernel",
        default="textbook",
        metavar="NAMES",
        help="such as textbook,flash,ring:4 (default: textbook)",
    )
    add("--d", default=_D, metavar="SIZES", help=f"head dimensions (default: {_D})")
    add("--n", default=_N, metavar="SIZES", help=f"sequence lengths (default: {_N})")
    add("--batch", default="8", metavar="SIZE", help="batch (default: 8)")
    add("--heads", default="1", metavar="SIZE", help="heads (default: 1)")
    add("--dtype", default="float32", help="dtype of the inputs (default: float32)")
    add(
        "--causal",
        action=BooleanOptionalAction,
        help="query i sees keys 0 to i (default: if the kernel can)",
    )
    add("--backward", action="store_true", help="run forward and backward")
    add("--passes", default="100", metavar="COUNT", help="timed passes (default: 100)")
    add("--warmup", default="5", metavar="COUNT", help="passes before the timed ones (default: 5)")
    add("--simulate", action="store_true", help="simulate a device: memory only, no times")
    add(
        "--device",
        metavar="NAME",
        help=f"cuda or cpu; with --simulate a profile (default: {DEFAULT_PROFILE})",
    )
    add("--memory", metavar="SIZE", help="memory of the simulated device (default: the profile's)")
    add(
        "--longest",
        action="store_true",
        help="also find the longest N that fits the simulated device",
    )
    add("--decompose", action="store_true", help="list the components of each peak")
    add(
        "--json",
        metavar="PATH",
        help="write the results as JSON; - prints them instead of the table",
    )
    add("--csv", metavar="PATH", help="write the rows as CSV")
    add("--markdown", metavar="PATH", help="write a report in Markdown")
    add("--resume", metavar="FILE", help="reuse the rows in this JSON file of a sweep")


def execute(arguments: Namespace) -> int:
    """Runs the sweep, prints the table and writes the files; returns the exit code.

    Raises:
        AttnMemError: an argument is not accepted, or a file cannot be read or written.
    """
    from ..sweep.runner import SweepRunner

    with progress("importing torch"):
        cases = _cases(arguments)
        primed = _primed(arguments)
    parameters = _parameters(arguments, primed)
    resumed = _resumed(arguments.resume, parameters)
    passes, warmup = _count("passes", arguments.passes, 1), _count("warmup", arguments.warmup, 0)
    for option in _FILES:
        path = getattr(arguments, option)
        if path == "-" and option != "json":
            raise AttnMemError(f"--{option}: only --json is printed; name a file")
        check_output_path(option, path)
    if primed.backend.device == "cpu" and not arguments.simulate:
        _warn(cases, passes + warmup)
    runner = SweepRunner(primed, passes=passes, warmup=warmup, tracing=arguments.decompose)
    with progress(_bar(0, len(cases))) as show, garbage_frozen():
        results = _run(runner, cases, resumed, show, with_longest=arguments.longest)
    sweep = rows.Sweep(parameters, describe(), *results)
    _write(arguments, sweep)
    if not sweep.complete:
        return INTERRUPTED
    return 0 if any(row.status in (rows.OK, rows.OOM) for row in sweep.rows) else 1


def _warn(cases: Sequence[SweepCase], runs: int) -> None:
    """Says on stderr, before minutes of silence, what takes them and what does not."""
    if runs * sum(case.B * case.H * case.N**2 * case.d for case in cases) > _LONG:
        print(
            f"attnmem sweep: times {format_count(len(cases), 'case')} on the CPU, {runs} runs of"
            " each; --simulate gives the memory alone, in seconds",
            file=sys.stderr,
        )


def _cases(arguments: Namespace) -> list[SweepCase]:
    from ..measurement.qkv_inputs import dtype_of
    from ..sweep.case import candidate_named, sweep_cases

    return [
        *sweep_cases(
            [candidate_named(name) for name in _listed(arguments.kernel, "kernel")],
            [size_of("d", text) for text in _listed(arguments.d, "d")],
            [size_of("n", text) for text in _listed(arguments.n, "n")],
            batch=size_of("batch", arguments.batch),
            heads=size_of("heads", arguments.heads),
            dtype=dtype_of(arguments.dtype, "--dtype"),
            causal=arguments.causal,
            backward=arguments.backward,
        )
    ]


def _listed(text: str, option: str) -> list[str]:
    """Returns the names between commas, each once."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise BudgetError(f"--{option}: expected names or sizes with commas, got {shown(text)}")
    return [*dict.fromkeys(names)]


def _count(option: str, text: str, least: int) -> int:
    if not text.isdecimal() or len(text) > _MAX_DIGITS or int(text) < least:
        accepted = f"a whole number >= {least} and < 10**{_MAX_DIGITS}"
        raise BudgetError(f"--{option}: expected {accepted}, got {shown(text)}")
    return int(text)


def _primed(arguments: Namespace) -> PrimedBackend:
    from ..backends.primed_backend import open_primed
    from ..backends.registry import BACKENDS, with_profiles

    device = arguments.device
    if arguments.simulate:
        profile = find_profile(device or DEFAULT_PROFILE)
        if arguments.memory is not None:
            nbytes = parse_size(arguments.memory)
            if not nbytes:
                raise BudgetError("--memory: expected a size above 0, got 0")
            profile = replace(profile, memory_bytes=nbytes)
        return open_primed(f"simulated:{profile.name}", {**BACKENDS, **with_profiles([profile])})
    for option in ("memory", "longest"):
        if getattr(arguments, option):
            raise BudgetError(f"--{option} is for a simulated device: add --simulate")
    if device in PROFILES:
        raise BudgetError(f"{device} is a profile to simulate: add --simulate")
    return open_primed(device or "auto")


def _parameters(arguments: Namespace, primed: PrimedBackend) -> dict[str, Any]:
    """Returns all parameters that the numbers depend on."""
    backend = primed.backend
    names = ("kernel", "d", "n", "batch", "heads", "dtype", "causal", "backward")
    timed = () if arguments.simulate else ("passes", "warmup")
    profile = getattr(backend, "profile", None)
    return {
        **{name: getattr(arguments, name) for name in (*names, *timed)},
        "device": backend.name if ":" in backend.name else backend.device,
        "memory_bytes": profile.memory_bytes if profile is not None else None,
    }


def _resumed(path: str | None, parameters: dict[str, Any]) -> dict[Any, rows.Row]:
    """Returns the rows of an earlier sweep of the same parameters, without its errors."""
    if path is None:
        return {}
    earlier = rows.load(Path(path))
    for name, value in parameters.items():
        if earlier.parameters.get(name) != value:
            was = shown(earlier.parameters.get(name))
            raise BudgetError(f"--resume {path}: its {name} was {was}, and now is {shown(value)}")
    return {row.key: row for row in earlier.rows if row.status != rows.ERROR}


def _run(
    runner: SweepRunner,
    cases: Sequence[SweepCase],
    resumed: dict[Any, rows.Row],
    show: Callable[[str], None],
    *,
    with_longest: bool,
) -> tuple[tuple[rows.Row, ...], bool, tuple[dict[str, Any], ...]]:
    """Returns the rows, True if no row is missing, and the longest lengths that fit."""
    done: list[rows.Row] = []
    edges: list[dict[str, Any]] = []
    try:
        for number, case in enumerate(cases):
            key = (case.attention.name, case.d, case.N)
            if key not in resumed:
                show(f"{_bar(number, len(cases))} {case}")
            done.append(resumed[key] if key in resumed else runner.row(case))
        last = {(case.attention.name, case.d): case for case in cases if with_longest}
        for case in last.values():
            edges.append(_longest_fit(runner, case, show))
    except KeyboardInterrupt:
        return tuple(done), False, tuple(edges)
    return tuple(done), True, tuple(edges)


def _longest_fit(
    runner: SweepRunner, case: SweepCase, show: Callable[[str], None]
) -> dict[str, Any]:
    """Returns the longest length that fits the device, with its peak."""

    def fits(N: int) -> bool:
        show(f"longest {case.at(N)}")
        return runner.fits(case.at(N))

    sizes = ("N", "peak_bytes", "reserved_bytes")
    found = {"kernel": case.attention.name, "d": case.d, **dict.fromkeys(sizes)}
    # Ranks share evenly; lengths with the same remainder of a block share their short lengths.
    unit = case.attention.ranks if case.attention.attend is None else PERIOD
    try:
        edge = unit * longest(lambda blocks: fits(unit * blocks))
        if case.attention.attend is not None:
            edge = last_that_fits(fits, edge, edge + unit)
    except AttnMemError as error:
        return {**found, "reason": str(error)}
    if not edge:
        return {**found, "reason": "not even N=1 fits"}
    row = runner.row(case.at(edge))
    return {**found, **{size: getattr(row, size) for size in sizes}, "reason": row.reason}


def _bar(done: int, total: int) -> str:
    full = 20 * done // total
    return f"[{'#' * full}{'.' * (20 - full)}] {done}/{total}"


def _write(arguments: Namespace, sweep: rows.Sweep) -> None:
    if arguments.json == "-":
        print(rows.render(sweep), end="")
    else:
        print("\n".join(text_table.render(sweep)))
        if arguments.decompose:
            print("\n".join(text_table.decompositions(sweep)))
    for option, rendered in _FILES.items():
        path = getattr(arguments, option)
        if path and path != "-":
            write(Path(path), rendered(sweep))

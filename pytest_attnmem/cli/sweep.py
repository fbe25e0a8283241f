"""Compare kernels over widths and lengths: time, memory before backward, peak, out of memory."""

from __future__ import annotations

import os
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
from ..profiles import DEFAULT_PROFILE, PROFILES, find_profile
from ..sweep import markdown_report as report
from ..sweep import results as rows
from ..sweep import text_table as table
from ..units import parse_size, shown
from .kernel_workload import size_of
from .max_length import longest

if TYPE_CHECKING:
    from ..backends.primed_backend import PrimedBackend
    from ..sweep.case import Case
    from ..sweep.runner import Bench

#: A count of passes has no more.
_DIGITS: Final = 6

#: The exit code of a shell for Ctrl-C. The rows that were done are written.
INTERRUPTED: Final = 130

#: What is written to files, and how.
_FILES: Final = MappingProxyType(
    {"csv": table.to_csv, "markdown": report.render, "json": rows.render}
)

_D, _N = "16,32,64,128", "256,1024,4096,8192,16384"


def add_arguments(parser: ArgumentParser) -> None:
    """``--kernel standard,flash --d 64 --n 1024,4096 --backward --simulate --device T4``."""
    parser.epilog = (
        "It does what the reference benchmark does: inputs, a warm-up whose copies and gradients"
        " stay, copies, a forward pass, an upstream gradient, and a backward pass. Ctrl-C writes"
        f" the rows that are done and exits with {INTERRUPTED}; where no row could be had, it exits"
        " with 1."
    )
    add = parser.add_argument
    add("--kernel", default="standard", metavar="NAMES", help="standard,flash,ring:4 … (standard)")
    add("--d", default=_D, metavar="SIZES", help=f"head dimensions ({_D})")
    add("--n", default=_N, metavar="SIZES", help=f"lengths ({_N})")
    add("--batch", default="8", metavar="SIZE", help="(8)")
    add("--heads", default="1", metavar="SIZE", help="(1)")
    add("--dtype", default="float32", help="of the inputs (float32)")
    add("--causal", action=BooleanOptionalAction, help="query i sees keys 0 to i (where known)")
    add("--backward", action="store_true", help="forward and backward")
    add("--passes", default="100", metavar="COUNT", help="to take the mean time of (100)")
    add("--warmup", default="5", metavar="COUNT", help="passes before those (5)")
    add("--simulate", action="store_true", help="memory alone, on a device that is not there")
    add("--device", metavar="NAME", help=f"cuda, cpu …; simulated, a profile ({DEFAULT_PROFILE})")
    add("--memory", metavar="SIZE", help="of the simulated device, instead of its own")
    add("--longest", action="store_true", help="simulated: the longest N that fits as well")
    add("--decompose", action="store_true", help="what each peak consists of")
    add("--json", metavar="PATH", help="write it as JSON; - prints it instead of the table")
    add("--csv", metavar="PATH", help="write the rows as CSV")
    add("--markdown", metavar="PATH", help="write a report")
    add("--resume", metavar="FILE", help="take the rows that this JSON of a sweep has")


def execute(arguments: Namespace) -> int:
    """Run it, print the table, and write what was asked for.

    Raises:
        AttnMemError: what was asked for is not there, or a file cannot be read or written.
    """
    from ..sweep.runner import Bench

    asked = _cases(arguments)
    instrument = _instrument(arguments)
    parameters = _parameters(arguments, instrument)
    known = _known(arguments.resume, parameters)
    passes, warmup = _count("passes", arguments.passes, 1), _count("warmup", arguments.warmup, 0)
    for option in _FILES:
        _look(option, getattr(arguments, option))
    bench = Bench(instrument, passes=passes, warmup=warmup, tracing=arguments.decompose)
    with garbage_frozen():
        found = _run(bench, asked, known, with_longest=arguments.longest)
    sweep = rows.Sweep(parameters, describe(), *found)
    _write(arguments, sweep)
    if not sweep.complete:
        return INTERRUPTED
    return 0 if any(row.status in (rows.OK, rows.OOM) for row in sweep.rows) else 1


def _look(option: str, path: str | None) -> None:
    """Before what may take hours, whether there will be room for a file of it."""
    if path is None or (path, option) == ("-", "json"):
        return
    if path == "-":
        raise AttnMemError(f"--{option}: only --json is printed; name a file")
    folder = Path(path).parent
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:  # a name that is too long, or has a NUL
        why = getattr(error, "strerror", None) or error
        raise AttnMemError(f"--{option}: {why}: {shown(path)}; name another file") from error
    if os.path.isdir(path):
        raise AttnMemError(f"--{option}: {path} is a directory; name a file in it")
    if not os.path.isdir(folder):
        raise AttnMemError(f"--{option}: there is no directory {folder}; create it first")


def _cases(arguments: Namespace) -> list[Case]:
    from ..measurement.qkv_inputs import dtype_of
    from ..sweep.candidates import attention_of
    from ..sweep.case import cases

    return [
        *cases(
            [attention_of(name) for name in _listed(arguments.kernel, "kernel")],
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
    """What stands between commas, each once."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise BudgetError(f"--{option}: expected names or sizes with commas, got {shown(text)}")
    return [*dict.fromkeys(names)]


def _count(option: str, text: str, least: int) -> int:
    if not text.isdecimal() or len(text) > _DIGITS or int(text) < least:
        accepted = f"a whole number >= {least} and < 10**{_DIGITS}"
        raise BudgetError(f"--{option}: expected {accepted}, got {shown(text)}")
    return int(text)


def _instrument(arguments: Namespace) -> PrimedBackend:
    from ..backends.primed_backend import open_primed
    from ..backends.registry import BACKENDS, with_profiles

    device = arguments.device
    if arguments.simulate:
        profile = find_profile(device or DEFAULT_PROFILE)
        if arguments.memory is not None:
            nbytes = parse_size(arguments.memory)
            if not nbytes:
                raise BudgetError("--memory: a device has some, got 0")
            profile = replace(profile, memory_bytes=nbytes)
        return open_primed(f"simulated:{profile.name}", {**BACKENDS, **with_profiles([profile])})
    for option in ("memory", "longest"):
        if getattr(arguments, option):
            raise BudgetError(f"--{option} is for a simulated device: add --simulate")
    if device in PROFILES:
        raise BudgetError(f"{device} is a profile to simulate: add --simulate")
    return open_primed(device or "auto")


def _parameters(arguments: Namespace, instrument: PrimedBackend) -> dict[str, Any]:
    """All that numbers depend on."""
    backend = instrument.backend
    names = ("kernel", "d", "n", "batch", "heads", "dtype", "causal", "backward")
    timed = () if arguments.simulate else ("passes", "warmup")
    profile = getattr(backend, "profile", None)
    return {
        **{name: getattr(arguments, name) for name in (*names, *timed)},
        "device": backend.name if ":" in backend.name else backend.device,
        "memory_bytes": profile.memory_bytes if profile is not None else None,
    }


def _known(path: str | None, parameters: dict[str, Any]) -> dict[Any, rows.Row]:
    """The rows of an earlier sweep of the same parameters, but for errors."""
    if path is None:
        return {}
    earlier = rows.load(Path(path))
    for name, value in parameters.items():
        if earlier.parameters.get(name) != value:
            was = shown(earlier.parameters.get(name))
            raise BudgetError(f"--resume {path}: its {name} was {was}, and now is {shown(value)}")
    return {row.key: row for row in earlier.rows if row.status != rows.ERROR}


def _run(
    bench: Bench, asked: Sequence[Case], known: dict[Any, rows.Row], *, with_longest: bool
) -> tuple[tuple[rows.Row, ...], bool, tuple[dict[str, Any], ...]]:
    """The rows, whether that is all of them, and the longest lengths."""
    done: list[rows.Row] = []
    edges: list[dict[str, Any]] = []
    tell = _teller()
    try:
        for number, case in enumerate(asked):
            key = (case.attention.name, case.d, case.N)
            if key not in known:
                tell(f"{_bar(number, len(asked))} {case}")
            done.append(known[key] if key in known else bench.row(case))
        if with_longest:
            widest = {(case.attention.name, case.d): case for case in asked}
            for case in widest.values():
                edges.append(_edge(bench, case, tell))
    except KeyboardInterrupt:
        return tuple(done), False, tuple(edges)
    finally:
        tell("")
    return tuple(done), True, tuple(edges)


def _edge(bench: Bench, case: Case, tell: Callable[[str], None]) -> dict[str, Any]:
    """The longest length that fits the device."""

    def fits(N: int) -> bool:
        tell(f"longest {case.at(N)}")
        return bench.fits(case.at(N))

    sizes = ("N", "peak_bytes", "reserved_bytes")
    found = {"kernel": case.attention.name, "d": case.d, **dict.fromkeys(sizes)}
    # Ranks share evenly; and lengths of one rest of a block are told by the same short ones.
    unit = case.attention.ranks if case.attention.attend is None else 128
    try:
        edge = unit * longest(lambda blocks: fits(unit * blocks))
        if case.attention.attend is not None:
            edge += longest(lambda rest: fits(edge + rest), limit=unit - 1)
    except AttnMemError as error:
        return {**found, "reason": str(error)}
    if not edge:
        return {**found, "reason": "not even N=1 fits"}
    row = bench.row(case.at(edge))
    return {**found, **{size: getattr(row, size) for size in sizes}, "reason": row.reason}


def _bar(done: int, total: int) -> str:
    full = 20 * done // total
    return f"[{'#' * full}{'.' * (20 - full)}] {done}/{total}"


def _teller() -> Callable[[str], None]:
    """Shows what is going on, on a terminal only."""
    if not sys.stderr.isatty():
        return lambda text: None
    return lambda text: print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _write(arguments: Namespace, sweep: rows.Sweep) -> None:
    if arguments.json == "-":
        print(rows.render(sweep), end="")
    else:
        print("\n".join(table.render(sweep)))
        if arguments.decompose:
            print("\n".join(table.decompositions(sweep)))
    for option, rendered in _FILES.items():
        path = getattr(arguments, option)
        if path and path != "-":
            try:
                Path(path).write_text(rendered(sweep), encoding="utf-8")
            except OSError as error:
                raise AttnMemError(f"cannot write {path}: {error.strerror or error}") from error

"""Run seventy workloads on this machine's GPU, and hold the null and simulated device to them."""

from __future__ import annotations

import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from ..errors import AttnMemError, BackendUnavailable
from ..nulldevice.launch import environment
from ..profiles import DEFAULT_PROFILE, DeviceProfile, find_profile
from ..report import check_output_path, write
from ..units import format_count, shown
from ..verification import document, table
from ..verification.comparison import Measures, Row, compare
from ..verification.device_facts import profile_facts, profile_for
from ..verification.document import Recorded, Verification
from ..verification.peer import Peer
from .terminal import progress

#: The time of a whole run, in seconds.
_SECONDS: Final = 300.0


def add_arguments(parser: ArgumentParser) -> None:
    """``--json h100.json``, ``--device H100`` without a GPU."""
    parser.epilog = (
        "Each workload runs on the GPU, and at once, in processes of their own, on the null and on"
        " the simulated device of its profile. Without a GPU the simulated device is held to the"
        " null device, which needs the CUDA build of torch. Exit code 0: all that was measured"
        " twice is equal to the byte; 1: something differs; 2: there was nothing to compare."
    )
    parser.add_argument("--json", metavar="PATH", help="write the results to this file")
    parser.add_argument(
        "--device",
        metavar="PROFILE",
        help=f"the profile to compare with (default: the GPU's; without one {DEFAULT_PROFILE})",
    )
    parser.add_argument(
        "--against", metavar="PATH", type=Path, help="hold them to a file of another machine's GPU"
    )
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="the workloads with this text in their name"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=_SECONDS,
        metavar="S",
        help=f"start no workload after so many seconds (default: {_SECONDS:.0f})",
    )


def execute(arguments: Namespace) -> int:
    """Prints the table, writes the file; returns 1 if something differs, 130 after an interrupt.

    Raises:
        AttnMemError: there is nothing to compare, or the file cannot be read or written.
    """
    check_output_path("json", arguments.json)
    if not 0 < arguments.seconds < 86_400:
        raise AttnMemError(f"--seconds is {arguments.seconds}; expected 1 to 86400")
    until = time.monotonic() + arguments.seconds
    with progress("starting the backends") as say, _setup(arguments, until) as setup:
        names = [name for name in _names() if arguments.only in name]
        if not names:
            raise AttnMemError(f"--only: no workload has {shown(arguments.only)} in its name")
        rows, interrupted = _measured(compare(setup.backends, names, until - time.monotonic()), say)
    found = replace(setup.found, rows=tuple(rows), complete=len(rows) == len(names))
    if rows:
        print("\n".join(table.render(found)))
    if len(rows) < len(names):
        left = format_count(len(names) - len(rows), "workload")
        print(f"not reached: {left}", file=sys.stderr)
    if arguments.json and rows:
        write(Path(arguments.json), document.render(found))
    if interrupted:
        return 130
    if not any(row.differences for row in rows):
        raise AttnMemError("nothing was measured on two backends; the reasons are above")
    return 1 if any(row.differs for row in rows) else 0


class _Setup(NamedTuple):
    """The backends that were started, the reference first, and the result without its rows."""

    backends: Mapping[str, Measures]
    found: Verification


def _measured(found: Iterator[Row], say: Callable[[str], None]) -> tuple[list[Row], bool]:
    """Returns the rows until the end or an interrupt, and True after an interrupt."""
    rows: list[Row] = []
    try:
        for row in found:
            rows.append(row)
            say(f"{len(rows)} {row.name}")
    except KeyboardInterrupt:
        return rows, True
    return rows, False


@contextmanager
def _setup(arguments: Namespace, until: float) -> Iterator[_Setup]:
    """Yields the backends, which run until the end of the context and leave no files.

    Raises:
        BackendUnavailable: there is no reference, or nothing to hold to it.
    """
    with tempfile.TemporaryDirectory(prefix="attnmem-verify-") as own, ExitStack() as ending:

        def start(kind: str, profile: DeviceProfile | None, **variables: str) -> Peer:
            peer = Peer(kind, profile, variables, Path(own))
            ending.callback(peer.end)
            peer.start(until)
            return peer

        yield _against(arguments, start) if arguments.against else _here(arguments, start)


_Start = Callable[..., Peer]


def _here(arguments: Namespace, start: _Start) -> _Setup:
    """Returns the GPU and what stands for it; without a GPU, the null device as the reference."""
    refusals: list[str] = []
    gpu = _started(refusals, start, "cuda", None)
    if gpu is None:
        print(f"no GPU: {refusals[0]}", file=sys.stderr)
    device = find_profile(arguments.device or DEFAULT_PROFILE)
    if gpu is not None and not arguments.device:
        device = profile_for(gpu.greeting["facts"])
    backends = {} if gpu is None else {"cuda": gpu}
    backends |= _stand_ins(refusals, start, device, beside_gpu=gpu is not None)
    if len(backends) < 2:
        raise BackendUnavailable(
            f"nothing to compare with; on a GPU it runs {len(_names())} workloads on cuda, null and"
            f" simulated ({'; '.join(refusals)})"
        )
    reference = next(iter(backends))
    greeting = backends[reference].greeting
    versions, facts = greeting["versions"], greeting["facts"] or {}
    found = Verification(reference, device.name, versions, facts, profile_facts(device))
    return _Setup(backends, found)


def _against(arguments: Namespace, start: _Start) -> _Setup:
    """Returns the reference of a file, and what stands for its device here."""
    recording = document.read(arguments.against)
    device = find_profile(arguments.device or recording.profile)
    refusals: list[str] = []
    backends = _stand_ins(refusals, start, device, beside_gpu=False)
    if not backends:
        raise BackendUnavailable(f"nothing to hold to {arguments.against}: {'; '.join(refusals)}")
    here = next(iter(backends.values())).greeting["versions"]["torch"]
    recorded = recording.versions.get("torch")
    if _minor(here) != _minor(recorded):
        raise AttnMemError(
            f"{arguments.against} is of torch {recorded}, and {here} is installed here, whose"
            " kernels take other memory; install that version"
        )
    others = {name: peer for name, peer in backends.items() if name != recording.reference}
    return _Setup({recording.reference: Recorded(recording), **others}, recording)


def _minor(version: str | None) -> list[str]:
    return str(version).split(".")[:2]


def _stand_ins(
    refusals: list[str], start: _Start, device: DeviceProfile, *, beside_gpu: bool
) -> dict[str, Peer]:
    """Returns the null and the simulated device, as far as they work here."""
    found: dict[str, Peer] = {}
    try:
        variables = environment(device, beside_gpu=beside_gpu)
    except BackendUnavailable as error:
        refusals.append(str(error))
    else:
        if null := _started(refusals, start, "null", device, **variables):
            found["null"] = null
    # Without a device of its own, or programs could find the GPU.
    if simulated := _started(refusals, start, "simulated", device, CUDA_VISIBLE_DEVICES=""):
        found["simulated"] = simulated
    return found


def _started(
    refusals: list[str], start: _Start, kind: str, device: DeviceProfile | None, **variables: str
) -> Peer | None:
    try:
        return start(kind, device, **variables)
    except BackendUnavailable as error:
        refusals.append(str(error))
        return None


def _names() -> list[str]:
    from ..verification.workloads import WORKLOADS

    return [workload.name for workload in WORKLOADS]

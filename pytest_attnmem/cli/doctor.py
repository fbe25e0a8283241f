"""Say what is installed, which backends work here, and why others do not."""

from __future__ import annotations

import platform
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any, Final

from .. import __version__
from ..backends.registry import BUILT_IN, check_name, open_backend
from ..errors import AttnMemError, BackendUnavailable
from ..measurement.installed_torch import missing_rules
from ..nulldevice import build, launch, parts, torch_build
from ..nulldevice.torch_build import TorchBuild
from ..units import excerpt, format_size
from .terminal import answer, painted, progress

#: Packages that this one uses, or that change how tests run.
_PACKAGES: Final = (
    *("pytest", "pluggy", "tabulate", "torch", "numpy", "triton", "matplotlib"),
    *("pytest-xdist", "pytest-rerunfailures", "pytest-timeout", "pytest-cov"),
)
_NEEDED: Final = frozenset({"pytest", "pluggy", "tabulate", "torch"})


def add_arguments(parser: ArgumentParser) -> None:
    """``--backend null``."""
    parser.epilog = (
        "Exit code 0: a backend works, or the one that --backend names. Nothing is compiled, and"
        " no device is used."
    )
    parser.add_argument(
        "--backend", metavar="NAME", help="exit with 1 unless this backend works: null, cuda, …"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def execute(arguments: Namespace) -> int:
    """Prints the findings; returns 1 if no backend works, or not the one asked for.

    Raises:
        AttnMemError: no backend has the name.
    """
    asked = (arguments.backend or "").partition(":")[0]
    if asked:
        check_name(asked)
    with progress("importing torch") as show:
        found = examine(show)
    works = asked in found.working if asked not in ("", "auto") else bool(found.working)
    answer(arguments.json, lambda: to_dict(found), lambda: render(found))
    return 0 if works else 1


@dataclass(frozen=True, slots=True)
class Findings:
    """The backends that work here, and the versions of packages."""

    packages: Mapping[str, str | None]
    """Name → version; None if it is not installed."""
    rules: str
    """Why the rules of the simulation do not hold for this torch; empty if they do."""
    backends: Mapping[str, str]
    """Name → the reason why it cannot measure here; empty if it can."""
    lacking: tuple[str, ...] = ()
    """What the null device can do without, and is not there: a line for each."""
    caches: Mapping[str, tuple[Path, int | None]] = field(default_factory=dict)
    """Name → the folder, and its bytes; None if it does not exist."""

    @property
    def working(self) -> list[str]:
        """Returns the backends that can measure here."""
        return [name for name, refusal in self.backends.items() if not refusal]


def examine(show: Callable[[str], None] = lambda text: None) -> Findings:
    """Returns the findings; imports torch, and uses no device."""
    packages = {name: _version(name) for name in _PACKAGES}
    if packages["torch"] is None:
        lacking = "torch is not installed; pip install torch"
        refused = {one.name: lacking for one in BUILT_IN}
        return Findings(packages, "", refused, caches=dict(_caches()))
    backends = {}
    for one in BUILT_IN:
        show(f"trying {one.name}")
        backends[one.name] = _refusal(one.name)
    lacks = () if backends["null"] else tuple(without(torch_build.find()))
    return Findings(packages, missing_rules(), backends, lacks, dict(_caches()))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _refusal(name: str) -> str:
    try:
        if name == "null" and not launch.active():
            build.check()
        else:
            open_backend(name)
    except AttnMemError as error:
        _, colon, why = str(error).partition(" cannot measure here: ")
        return why if colon else str(error)
    return ""


def _caches() -> Iterator[tuple[str, tuple[Path, int | None]]]:
    try:
        folder = build.cache_folder()
    except BackendUnavailable:
        return
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else None
    size = None if files is None else sum(path.stat().st_size for path in files)
    yield "null runtime", (folder, size)


def render(found: Findings) -> list[str]:
    """Returns the answer, then backends, packages and caches."""
    works = f"measures here with {', '.join(found.working)}"
    head = f"attnmem {__version__} {works if found.working else 'cannot measure here'}"
    lines = [head, "", "backends"]
    width = max(map(len, found.backends))
    for name, refusal in found.backends.items():
        state = painted("no", "yellow") if refusal else painted("yes", "green")
        lines.append(f"  {name:{width}}  {state:3}  {excerpt(refusal, 300)}".rstrip())
        if name == "null" and not refusal:
            lines += [f"  {'':{width}}       {text}" for text in found.lacking]
    python = f"{platform.python_version()}  {shown_path(Path(sys.executable))}"
    lines += ["", "packages", f"  {'python':20}  {python}"]
    for name, number in found.packages.items():
        if number is not None or name in _NEEDED:
            more = f"  {found.rules or 'its memory rules are known'}" if name == "torch" else ""
            lines.append(f"  {name:20}  {number or 'not installed'}{more if number else ''}")
    plugins = sorted({entry.name for entry in entry_points(group="pytest11")})
    lines += [f"  {'plugins of pytest':20}  {', '.join(plugins)}", "", "caches"]
    for name, (folder, size) in found.caches.items():
        held = "not made yet" if size is None else format_size(size)
        lines.append(f"  {name:20}  {shown_path(folder)}  {held}")
    steps = _next(found)
    width = max(len(command) for command, _ in steps)
    return [*lines, "", "next", *(f"  {step:{width}}  {why}" for step, why in steps)]


def _next(found: Findings) -> tuple[tuple[str, str], ...]:
    """Returns the three commands to run next, each with its reason."""
    works = {*found.working}
    if found.packages["torch"] is None:
        first = ("pip install torch", "tests are measured where torch is")
    elif works & {"cuda", "accelerator"}:
        first = ("pytest --attnmem-report", "the table of all budgets, on this device")
    elif "null" in works:
        first = ("pytest --attnmem-backend null:H100", "the bytes of an H100, without one")
    elif sys.platform == "linux":
        first = ("attnmem install null", "the bytes of a GPU, without one")
    else:
        first = ("pytest --attnmem-backend simulated:H100", "about an H100, without one")
    return (
        first,
        ("attnmem init", "suggest a budget for each of your ten largest tests, as a diff"),
        ("pytest --attnmem-update all", "record every test; from then on one byte more fails"),
    )


def without(torch: TorchBuild) -> Iterator[str]:
    """Yields a line for each part that the null device lacks: what it is for, and the command."""
    for part in parts.lacking(torch):
        why = parts.unplannable(torch) if part == "cudnn" else ""
        command = f"attnmem install null --with {part}"
        yield f"without {part}: no {parts.USES[part]}; {why or command}"


def shown_path(path: Path) -> str:
    """Returns a path as its user writes it: ``~/.cache/pytest-attnmem``."""
    home = Path.home()
    return f"~/{path.relative_to(home).as_posix()}" if path.is_relative_to(home) else str(path)


def to_dict(found: Findings) -> dict[str, Any]:
    """Returns the findings as JSON values."""
    return {
        "schema": 1,
        "attnmem": __version__,
        "python": platform.python_version(),
        "packages": dict(found.packages),
        "rules": found.rules or None,
        "backends": {
            name: {"works": not refusal, "reason": refusal or None}
            for name, refusal in found.backends.items()
        },
        "caches": {
            name: {"folder": str(folder), "bytes": size}
            for name, (folder, size) in found.caches.items()
        },
        "null_lacks": list(found.lacking),
    }

"""Hold the rules of each operator to the installed torch, on null devices, and keep the result."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..backends.certification.certifying import (
    Comparison,
    certificate_of,
    compare,
    matching,
    previously_refused,
)
from ..backends.certification.recipes import DEVICES
from ..certified import certificate
from ..errors import AttnMemError
from ..nulldevice import parts, torch_build
from ..torch_releases import Version, minor_version
from ..units import format_count
from .terminal import answer, progress

#: What operators of PyTorch's own call beside its kernels.
_LIBRARIES: Final = ("cudnn", "nvrtc")


def add_arguments(parser: ArgumentParser) -> None:
    """``--device H100 --json mm addmm``."""
    parser.epilog = (
        "Each recorded call runs on the null device, and its allocations are compared with the rule"
        " of its operator. Needs the CUDA build of torch on Linux: attnmem install null. Without"
        " operators, the result is kept in a file, and sessions on this torch refuse the operators"
        " that it lists, and no others. Exit code 1: an operator differs that did not before."
    )
    parser.add_argument(
        "operators", nargs="*", metavar="OPERATOR", help="such as mm or aten.mm.out (default: all)"
    )
    parser.add_argument(
        "--device",
        action="append",
        default=None,
        metavar="PROFILE",
        help=f"a device; may be given again (default: {', '.join(DEVICES)})",
    )
    parser.add_argument(
        "--rules", metavar="X.Y", help="the version whose rules are compared (default: torch's)"
    )
    parser.add_argument(
        "--folder", type=Path, metavar="PATH", help="write the file there (default: user's cache)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def execute(arguments: Namespace) -> int:
    """Prints what differs, and writes the file if all operators were compared.

    Raises:
        AttnMemError: the null device does not run here or lacks a library, or a name is none.
    """
    torch = torch_build.find()
    rules = _version(arguments.rules or torch.version)
    operators = matching(arguments.operators)
    lacking = [part for part in parts.lacking(torch) if part in _LIBRARIES]
    if lacking and not arguments.operators:
        options = " ".join(f"--with {part}" for part in lacking)
        raise AttnMemError(
            f"some operators need {', '.join(lacking)}: attnmem install null {options}"
        )
    before = certificate.certificate_of(
        torch.version, torch_build.read_version(torch.folder).commit
    )
    known = previously_refused(before, torch.version)
    with progress("starting null devices") as show:
        found = compare(operators, arguments.device or DEVICES, rules, show)
    made, path = certificate_of(found, torch, rules), None
    if not arguments.operators:
        path = made.write(arguments.folder or certificate.kept_folder())
    new = sorted(found.refused.keys() - known)
    answer(
        arguments.json,
        lambda: {**made.as_json(), "new": new, "file": path and str(path)},
        lambda: _lines(found, made, new, path),
    )
    return 1 if new else 0


def _version(text: str) -> Version:
    version = minor_version(f"{text}.0")
    if version == (0, 0):
        raise AttnMemError(f"--rules is {text!r}; expected a version such as 2.15")
    return version


def _lines(
    found: Comparison, made: certificate.Certificate, new: list[str], path: Path | None
) -> Iterator[str]:
    devices = format_count(len(found.devices), "device")
    yield (
        f"torch {made.torch}: {len(found.operators) - len(found.refused)} of"
        f" {len(found.operators)} operators as in the rules of {made.base}"
        f" ({found.calls} calls on {devices}; {found.unplanned} without a plan)"
    )
    for op, differs in found.refused.items():
        yield f"  {op}{' (new)' if op in new else ''}: {differs}"
    if path is not None:
        yield f"written: {path}"

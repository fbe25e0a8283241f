"""Install what the null device needs: the CUDA build of torch, in front of a CPU build."""

from __future__ import annotations

import shlex
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from ..errors import BackendUnavailable
from ..nulldevice import build, installation, kept_build, parts, torch_build
from ..nulldevice.installation import Installer
from ..nulldevice.torch_build import TorchBuild
from ..units import format_size
from .doctor import shown_path, without


def add_arguments(parser: ArgumentParser) -> None:
    """``null --with cudnn --dry-run``."""
    parser.epilog = (
        "The user's own uv or pip fetches torch's CUDA wheel, 0.5 to 0.9 GB, into the user's cache;"
        " none of NVIDIA's packages is needed. Only processes on the null device import it."
    )
    parser.add_argument("what", choices=["null"], help="the null device")
    parser.add_argument(
        "--with",
        dest="parts",
        action="append",
        choices=parts.NAMES,
        metavar="PART",
        help=f"also what some programs need, one of {', '.join(parts.NAMES)}; may be repeated",
    )
    parser.add_argument("--index-url", metavar="URL", help="as of pip: where packages come from")
    parser.add_argument("--wheels", metavar="FOLDER", help="a folder of wheels, and no network")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, and run none")
    parser.add_argument("--remove", action="store_true", help="remove what was installed")


def execute(arguments: Namespace) -> int:
    """Installs, removes, or says what would be done.

    Raises:
        BackendUnavailable: it cannot be done here; the message says why in one line.
    """
    build.refuse_elsewhere()
    wanted = list(dict.fromkeys(arguments.parts or ()))
    version = torch_build.read_version(torch_build.find_folder())
    kept = kept_build.folder(version.release)
    if arguments.remove:
        freed = installation.remove(kept)
        print(f"removed {shown_path(kept)}, {format_size(freed)}" if freed else "nothing to remove")
        return 0
    installer = Installer(_source(arguments))
    if arguments.dry_run:
        print("\n".join(_planned(wanted, installer)))
        return 0
    build.cache_folder()  # refuses one that is of no use, before anything is fetched
    if not version.cuda and not _is_kept():
        installation.keep(version, installer, _show)
    torch = torch_build.find()
    installation.add_headers(torch, installer, _show)
    lacking = set(parts.lacking(torch))
    for part in wanted:
        if part in lacking:
            installation.add(torch, part, installer, _show)
    _show("starting the null device once")
    installation.start_once()
    print("\n".join(_ready(torch)))
    return 0


def _source(arguments: Namespace) -> list[str]:
    """Returns the installer's options for where packages come from."""
    found = ["--index-url", arguments.index_url] if arguments.index_url else []
    if arguments.wheels:
        folder = Path(arguments.wheels)
        if not folder.is_dir():
            raise BackendUnavailable(f"--wheels: there is no folder {str(folder)!r}")
        found += ["--no-index", "--find-links", str(folder.resolve())]
    return found


def _is_kept() -> bool:
    try:
        torch_build.find()
    except BackendUnavailable:
        return False
    return True


def _planned(wanted: list[str], installer: Installer) -> list[str]:
    """Returns the commands, and the space that they need."""
    version = torch_build.read_version(torch_build.find_folder())
    kept = kept_build.folder(version.release)
    lines = []
    if not version.cuda and not _is_kept():
        needed = format_size(installation.NEEDED_BYTES)
        lines.append(f"# needs {needed} of disk for a while, and keeps about 0.8 GiB in {kept}")
        lines.append(shlex.join(installer.command(installation.wanted(version), kept, "--no-deps")))
        if wanted:
            lines.append(f"# then {', '.join(wanted)}, in the versions that this torch asks for")
        return lines
    torch = torch_build.find()
    for part in parts.lacking(torch):
        if part in wanted:
            command = installer.command(parts.requirements(torch, part), torch.front)
            lines.append(shlex.join(command))
    return lines or [f"# nothing: torch {torch.version} is there"]


def _ready(torch: TorchBuild) -> list[str]:
    where = f" in {shown_path(torch.front)}" if torch.front else ""
    lines = [f"null measures here with torch {torch.version}{where}"]
    lines += [f"  {text}" for text in without(torch)]
    return [*lines, "try: pytest --attnmem-backend null:H100"]


def _show(text: str) -> None:
    print(f"attnmem install: {text}", file=sys.stderr, flush=True)
